import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { PublishOutcome } from '../../lib/broker/port';
import { RedisBroker } from '../../lib/broker/redis/redis-broker';
import { type CeleryOptions, parseCeleryOptions } from '../../lib/celery-options';
import type { CeleryMessage, MessageProperties, Route } from '../../lib/message/celery-message';
import { eventually } from './eventually';

export interface MessageParts {
  readonly taskId?: string;
  readonly queue?: string;
  readonly route?: Route;
  readonly properties?: Partial<MessageProperties>;
  readonly headers?: CeleryMessage['headers'];
  readonly body?: unknown;
}

/** A message as the encoder makes it, for a queue of the default exchange unless it has a route. */
export function createMessage(parts: MessageParts = {}): CeleryMessage {
  const { taskId = randomUUID(), queue = 'celery', properties, headers, body = [[], {}, {}] } = parts;
  return {
    taskId,
    route: parts.route ?? { exchange: '', routingKey: queue, queue },
    headers: { lang: 'py', task: 'proj.tasks.add', id: taskId, ...headers },
    properties: { correlationId: taskId, deliveryMode: 2, priority: 0, ...properties },
    body: Buffer.from(JSON.stringify(body)),
    contextHeaders: [],
    etaMs: null,
    chordSizes: {},
  };
}

export function createMessages(count: number, parts: MessageParts = {}): CeleryMessage[] {
  return Array.from({ length: count }, () => createMessage(parts));
}

export interface TestBroker {
  readonly broker: RedisBroker;
  /** What was given to onConnectionError. */
  readonly errors: unknown[];
}

export function createBroker(options: CeleryOptions): TestBroker {
  const errors: unknown[] = [];
  const broker = new RedisBroker(parseCeleryOptions(options), (error) => errors.push(error));
  return { broker, errors };
}

/** What was published, failed or is unknown: `published`, or the code of the error. */
export function codesOf(outcomes: readonly PublishOutcome[]): string[] {
  return outcomes.map((outcome) => (outcome.status === 'published' ? outcome.status : outcome.error.code));
}

/** Task ids in a list, in the order in which a worker takes them. */
export async function idsIn(redis: Redis, key: string): Promise<string[]> {
  const items = await redis.lrange(key, 0, -1);
  return items
    .toReversed()
    .map(
      (item) => (JSON.parse(item) as { properties: { correlation_id: string } }).properties.correlation_id,
    );
}

/** A client for a test to look behind the broker's back. One that is cut off is silent and comes back. */
export function createAdmin(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => 20 });
  redis.on('error', () => undefined);
  return redis;
}

/**
 * For hooks around tests after which ioredis lets timers run on by themselves: its parser's, while it gives back the
 * memory of a long reply, and for two seconds one of each Sentinel that it could not reach.
 *
 * @returns what waits until there are no more timers than now
 */
export async function watchTimers(): Promise<() => Promise<void>> {
  const count = async (): Promise<number> => {
    // Mocha starts a timer for the hook when it has returned; one that has just called counts until its turn is over.
    await new Promise((resolve) => setImmediate(resolve));
    return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  };
  const before = await count();
  return () =>
    eventually(async () => {
      if ((await count()) > before) throw new Error('timers are still running');
    });
}
