// Compiled by `npm run typecheck`, never run: a broker of a user's own, and its harness.
import {
  type Broker,
  brokerContract,
  type BrokerHarness,
  BrokerOutage,
  type BrokerTimeouts,
  type CeleryMessage,
  type ContractCheck,
  MessageFault,
  PUBLISHED,
  type PublishOutcome,
  type QueuedMessage,
} from '../../lib/testing';

class OwnBroker implements Broker {
  constructor(readonly timeouts: BrokerTimeouts) {}

  publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    return Promise.resolve(messages.map(({ route, body }) => outcomeOf(route.queue, body)));
  }

  connect(): Promise<void> {
    return Promise.reject(new BrokerOutage('unreachable', new Error('ECONNREFUSED')));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function outcomeOf(queue: string | null, body: Buffer): PublishOutcome {
  if (queue === null) {
    return { status: 'fault', error: new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', 'no queue') };
  }
  return body.length > 0 ? PUBLISHED : { status: 'outage', error: new BrokerOutage('full') };
}

// @ts-expect-error -- a fault has a code of its own
export const miscoded = new MessageFault('ERR_CELERY_OUTBOX_BROKER_OUTAGE', 'no queue');

const harness: BrokerHarness = {
  createBroker: (timeouts) => new OwnBroker(timeouts),
  createQueue: () => Promise.resolve('queue'),
  take: (): Promise<QueuedMessage[]> => Promise.resolve([]),
  deadEnds: { 'an exchange that does not exist': { exchange: 'none', routingKey: '', queue: null } },
  badMessages: { 'no id': (message) => ({ ...message, taskId: '' }) },
  stop: () => Promise.resolve(),
  start: () => Promise.resolve(),
};

export const checks: readonly ContractCheck[] = brokerContract(harness);
export const runs: (() => Promise<void>)[] = checks.map(({ run }) => run);
