import {
  type Broker,
  BrokerOutage,
  type CeleryMessage,
  MessageFault,
  PUBLISHED,
  type PublishOutcome,
} from '../../lib/testing';
import { createGate } from './gate';

type Answer = (message: CeleryMessage, attempt: number) => PublishOutcome | Promise<PublishOutcome>;

export const fault = (message = 'refused'): PublishOutcome => ({
  status: 'fault',
  error: new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', message),
});
export const outage = (message = 'away'): PublishOutcome => ({
  status: 'outage',
  error: new BrokerOutage(message),
});

/** A broker that does to each message what the test says. */
export class ScriptedBroker implements Broker {
  /** Ids of the tasks that it acknowledged, in order. */
  readonly acknowledged: string[] = [];
  /** Every message that it was given, in order. */
  readonly received: CeleryMessage[] = [];
  /** How many messages came in each call. */
  readonly calls: number[] = [];
  answer: Answer = () => PUBLISHED;

  async publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    this.calls.push(messages.length);
    return Promise.all(
      messages.map(async (message) => {
        const attempt = this.received.filter(({ taskId }) => taskId === message.taskId).length + 1;
        this.received.push(message);
        const outcome = await this.answer(message, attempt);
        if (outcome.status === 'published') this.acknowledged.push(message.taskId);
        return outcome;
      }),
    );
  }

  /** Holds every message back from now on. */
  hold(): { readonly arrived: Promise<void>; readonly release: () => void } {
    const [arrival, leave] = [createGate(), createGate()];
    this.answer = async () => {
      arrival.open();
      await leave.opened;
      return PUBLISHED;
    };
    return {
      arrived: arrival.opened,
      release: () => {
        leave.open();
      },
    };
  }

  connect(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
