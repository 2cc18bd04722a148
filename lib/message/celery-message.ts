import type { JsonValue } from './json-text';

/** Where a message goes. */
export interface Route {
  /** The empty string is the default exchange, where the routing key is the name of a queue. */
  readonly exchange: string;
  readonly routingKey: string;
  /** The queue that it is meant for; null if only the exchange knows. */
  readonly queue: string | null;
}

/** Properties under AMQP's names, in camelCase. */
export interface MessageProperties {
  readonly correlationId: string;
  readonly replyTo?: string;
  readonly deliveryMode: 1 | 2;
  readonly priority: number;
  /** Milliseconds from now after which the broker may drop it, as a string of digits. */
  readonly expiration?: string;
  readonly messageId?: string;
  readonly appId?: string;
  readonly type?: string;
  /** Seconds since 1970. */
  readonly timestamp?: number;
}

/**
 * A message of Celery's protocol 2, ready for any broker. Its content type is always `application/json`, its content
 * encoding `utf-8`.
 */
export interface CeleryMessage {
  readonly taskId: string;
  readonly route: Route;
  /** In Celery's order. */
  readonly headers: Readonly<Record<string, JsonValue>>;
  /** Names of headers that are context of the caller: a broker may leave them out where they do not fit. */
  readonly contextHeaders: readonly string[];
  readonly properties: MessageProperties;
  /** `[args, kwargs, embed]`, compressed if the header `compression` says so. */
  readonly body: Buffer;
  /** When a worker may start it: milliseconds since 1970. Null for at once. */
  readonly etaMs: number | null;
  /** Size of each chord, by group id, that the result backend has to know before this message is published. */
  readonly chordSizes: Readonly<Record<string, number>>;
}
