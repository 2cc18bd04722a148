import { randomUUID } from 'node:crypto';
import type { CeleryMessage, MessageProperties, Route } from '../message/celery-message';

const EMBED = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}';

export interface SampleParts {
  readonly taskId?: string;
  readonly route?: Route;
  /** More headers than the protocol's own. */
  readonly headers?: CeleryMessage['headers'];
  readonly properties?: Partial<MessageProperties>;
  readonly body?: Buffer;
}

/**
 * A message for a queue of the default exchange, as the encoder makes it. It is frozen, so that a broker that writes
 * into what it was given fails.
 */
export function createMessage(queue: string, parts: SampleParts = {}): CeleryMessage {
  const { taskId = randomUUID(), headers, properties, body = bodyOf('[1,"two"]', '{"three":3}') } = parts;
  return deepFreeze({
    taskId,
    route: parts.route ?? { exchange: '', routingKey: queue, queue },
    headers: {
      ...{ lang: 'js', task: 'contract.check', id: taskId, shadow: null, eta: null, expires: null },
      ...{ group: null, group_index: null, retries: 0, timelimit: [null, null], root_id: taskId },
      ...{ parent_id: null, argsrepr: "(1, 'two')", kwargsrepr: "{'three': 3}", origin: 'contract@host' },
      ignore_result: false,
      ...headers,
    },
    contextHeaders: [],
    properties: { correlationId: taskId, deliveryMode: 2, priority: 0, ...properties },
    body,
    etaMs: null,
    chordSizes: {},
  });
}

export function createMessages(count: number, queue: string): CeleryMessage[] {
  return Array.from({ length: count }, () => createMessage(queue));
}

/** The body of a task, from JSON texts. */
export function bodyOf(args: string, kwargs: string): Buffer {
  return Buffer.from(`[${args},${kwargs},${EMBED}]`);
}

export function idOf({ headers }: Pick<CeleryMessage, 'headers'>): string {
  return headers['id'] as string;
}

// The bytes of a Buffer cannot be frozen.
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
