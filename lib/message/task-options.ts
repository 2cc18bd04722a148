import type { Canvas } from './canvas';

/**
 * How a task is sent. An option that is `undefined` counts as not given; one that does not exist, is null or has a
 * wrong value is an error.
 */
export interface TaskOptions {
  /** Id of the task and of its result; at most 255 bytes. @defaultValue a random UUID */
  taskId?: string | undefined;
  /** Seconds from this call until the task may start; 0 is no delay. Not together with `eta`. */
  countdown?: number | undefined;
  /** When the task may start. A string is ISO 8601, in UTC if it has no offset. */
  eta?: Date | string | undefined;
  /** When the task is no longer worth running: seconds from this call, or an instant. May lie in the past. */
  expires?: number | Date | string | undefined;
  /** Queue to send to; at most 255 bytes. @defaultValue the outbox's queue */
  queue?: string | undefined;
  /** Exchange to publish to instead of a queue; it has to exist. The empty string is AMQP's default exchange. */
  exchange?: string | undefined;
  /** Routing key for `exchange`. */
  routingKey?: string | undefined;
  /** 0 to 255. RabbitMQ runs the highest first, Redis the lowest. */
  priority?: number | undefined;
  /** Seconds after which the worker kills the task. */
  timeLimit?: number | undefined;
  /** Seconds after which the task gets `SoftTimeLimitExceeded`. */
  softTimeLimit?: number | undefined;
  /** How often the task counts as retried already; 0 to 32767. */
  retries?: number | undefined;
  /** Name that logs and monitors show instead of the task's; at most 4096 bytes. */
  shadow?: string | undefined;
  /**
   * Headers of the message, any JSON, at most 8192 bytes of it; not the protocol's own names. Integers from -2^31 to
   * 2^63 - 1: no other reaches every worker unchanged.
   */
  headers?: Readonly<Record<string, unknown>> | undefined;
  /** What the worker sends with the result. */
  link?: Canvas | readonly Canvas[] | undefined;
  /** What the worker sends, or calls, on failure. */
  linkError?: Canvas | readonly Canvas[] | undefined;
  /** Steps that follow this task, in the order in which they run (the message has them reversed, as Celery wants). */
  chain?: readonly Canvas[] | undefined;
  /** Body of the chord whose header this task belongs to. The result backend's counter is up to the caller. */
  chord?: Canvas | undefined;
  /** Id of the group this task belongs to. */
  groupId?: string | undefined;
  /** Place of this task in its group, from 0. */
  groupIndex?: number | undefined;
  /** First task of the workflow. @defaultValue the task itself */
  rootId?: string | undefined;
  /** Task that sent this one. */
  parentId?: string | undefined;
  /** Queue for results of the rpc backend. */
  replyTo?: string | undefined;
  /** AMQP's correlation id. @defaultValue the task id */
  correlationId?: string | undefined;
  /** The worker stores no result. */
  ignoreResult?: boolean | undefined;
  /** What logs and monitors show as arguments. @defaultValue the redacted args, else the args; 1024 characters */
  argsrepr?: string | undefined;
  /** As `argsrepr`, for kwargs. */
  kwargsrepr?: string | undefined;
  /** Compress the body; both names mean a zlib stream, as in Celery. */
  compression?: 'zlib' | 'gzip' | undefined;
  /** 1 is transient: RabbitMQ loses the task when it restarts. @defaultValue 2, persistent */
  deliveryMode?: 1 | 2 | undefined;
  /** AMQP's message id. */
  messageId?: string | undefined;
  /** AMQP's application id. */
  appId?: string | undefined;
  /** AMQP's message type. */
  type?: string | undefined;
  /** AMQP's timestamp: seconds since 1970. */
  timestamp?: number | undefined;
  /** Tasks of one key are published one after another, in the order of their commits; at most 1024 bytes. */
  orderingKey?: string | undefined;
  /** A second task of the same name and key is not stored; it answers with the first one's id. At most 1024 bytes. */
  idempotencyKey?: string | undefined;
  /** The row stays in the outbox until then: for delays that a broker should not carry. */
  holdUntil?: Date | string | undefined;
}

/** The place of a task in a canvas is given by the canvas, not by options. */
type Placement = 'chain' | 'chord' | 'groupId' | 'groupIndex';

/** Options of a canvas as a whole. */
export type CanvasOptions = Omit<TaskOptions, Placement>;

/** Options of a signature. A worker may be the one who sends it, so it has none that are about an outbox row. */
export type SignatureOptions = Omit<CanvasOptions, 'orderingKey' | 'idempotencyKey' | 'holdUntil'>;
