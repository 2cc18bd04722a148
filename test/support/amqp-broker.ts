import { randomUUID } from 'node:crypto';
import { AmqpBroker } from '../../lib/broker/amqp/amqp-broker';
import type { PublishOutcome } from '../../lib/broker/port';
import { type CeleryOptions, parseCeleryOptions } from '../../lib/celery-options';
import type { CeleryMessage, MessageProperties, Route } from '../../lib/message/celery-message';

export interface MessageParts {
  readonly taskId?: string;
  /** For the default exchange. */
  readonly queue?: string;
  readonly route?: Route;
  readonly properties?: Partial<MessageProperties>;
  readonly headers?: CeleryMessage['headers'];
  readonly contextHeaders?: readonly string[];
  readonly body?: Buffer;
  readonly etaMs?: number | null;
}

const BODY = Buffer.from('[[],{},{}]');

/** A message as the encoder makes it, for a queue of the default exchange unless it has a route. */
export function createMessage(parts: MessageParts): CeleryMessage {
  const { taskId = randomUUID(), queue = '', properties, headers } = parts;
  return {
    taskId,
    route: parts.route ?? { exchange: '', routingKey: queue, queue },
    headers: { lang: 'js', task: 'proj.tasks.add', id: taskId, ...headers },
    contextHeaders: parts.contextHeaders ?? [],
    properties: { correlationId: taskId, deliveryMode: 2, priority: 0, ...properties },
    body: parts.body ?? BODY,
    etaMs: parts.etaMs ?? null,
    chordSizes: {},
  };
}

export function createMessages(count: number, parts: MessageParts): CeleryMessage[] {
  return Array.from({ length: count }, () => createMessage(parts));
}

/** Only an exchange knows where it goes. */
export function routeTo(exchange: string, routingKey: string): Route {
  return { exchange, routingKey, queue: null };
}

export interface TestBroker {
  readonly broker: AmqpBroker;
  /** What was given to onConnectionError. */
  readonly errors: unknown[];
}

/** Brokers for the tests of a suite, closed after each of them. */
export function useBrokers(): (options: CeleryOptions) => TestBroker {
  const opened: AmqpBroker[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((broker) => broker.close()));
  });
  return (options) => {
    const errors: unknown[] = [];
    const broker = new AmqpBroker(parseCeleryOptions(options), (error) => errors.push(error));
    opened.push(broker);
    return { broker, errors };
  };
}

/** What became of each message: `published`, or the code of the error. */
export function codesOf(outcomes: readonly PublishOutcome[]): string[] {
  return outcomes.map((outcome) => (outcome.status === 'published' ? outcome.status : outcome.error.code));
}

/** How often each code is among the outcomes. */
export function tally(outcomes: readonly PublishOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const code of codesOf(outcomes)) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

export const idsOf = (messages: readonly CeleryMessage[]): string[] => messages.map(({ taskId }) => taskId);
