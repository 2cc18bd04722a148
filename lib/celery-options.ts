import {
  assertOptions,
  isFunction,
  isPositive,
  isRecord,
  milliseconds,
  requireOption,
  type Rule,
  type Rules,
  text,
} from './assert-options';
import type { Broker } from './broker/port';
import { compileRoutes, type QueueOptions, type RouteOptions, type RoutingSettings } from './message/routing';

/** Where Celery is, and how tasks are routed there. */
export interface CeleryOptions {
  /** Broker URL: `amqp://`, `amqps://`, `redis://` or `rediss://`. Or what makes a broker of your own. */
  broker: string | (() => Broker);
  /** Result backend URL: for `AsyncResult.get()`, and in Redis for chords. */
  backend?: string;
  /** Queue for tasks that name none. @defaultValue `celery` */
  queue?: string;
  /** Queues that need more than a name, as in Celery's `task_queues`. */
  queues?: Readonly<Record<string, QueueOptions>>;
  /** Where tasks go whose call does not say so, by name or pattern, as in Celery's `task_routes`. */
  routes?: Readonly<Record<string, RouteOptions>>;
  /** Handed to the driver: socket and TLS options for AMQP, ioredis's options (Sentinel, TLS, …) for Redis. */
  brokerOptions?: Readonly<Record<string, unknown>>;
  /**
   * Handed to the driver of the result backend, for chords and for `AsyncResult.get()`: ioredis's options (Sentinel,
   * TLS, …) for Redis, socket and TLS options for AMQP.
   *
   * @defaultValue `brokerOptions`, without `db`, if broker and backend are on the same Redis server; else none
   */
  backendOptions?: Readonly<Record<string, unknown>>;
  /** How long Redis keeps the size of a chord: Celery's `result_expires`. @defaultValue 86400 */
  resultExpiresSeconds?: number;
  /**
   * Put before the keys of results and chords in Redis: `global_keyprefix` of `result_backend_transport_options`, as
   * Celery >= 5.6 does: with a `_` after it, unless it ends with one of `:_-.`.
   *
   * @defaultValue none
   */
  resultKeyPrefix?: string;
  /** Celery's `broker_transport_options` for Redis. */
  transportOptions?: TransportOptions;
  /** How long the broker may take to connect. @defaultValue 5000 */
  connectTimeoutMs?: number;
  /** How long the broker may take to acknowledge a message. @defaultValue 10000 */
  sendTimeoutMs?: number;
  /**
   * Send custom and trace headers also inside a header named `headers`: there `self.request.headers` of Celery < 5.3
   * and Sentry look for them. False sends custom headers as Python's Celery does, at the top level only.
   *
   * @defaultValue true
   */
  nestHeaders?: boolean;
}

/** The layout of kombu's Redis transport. */
export interface TransportOptions {
  /** Put before every key. @defaultValue none */
  globalKeyprefix?: string;
  /** @defaultValue [0, 3, 6, 9] */
  prioritySteps?: readonly number[];
  /** Between a queue's name and its priority step. @defaultValue `\x06\x16` */
  sep?: string;
}

export interface BackendSettings {
  readonly url: string;
  /** The driver's. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly connectTimeoutMs: number;
  readonly expiresSeconds: number;
  /** With its separator. */
  readonly keyPrefix: string;
}

export interface CelerySettings {
  /** The empty string for a broker of the user's own. */
  readonly broker: string;
  readonly createOwnBroker: (() => Broker) | null;
  readonly backend: BackendSettings | undefined;
  readonly routing: RoutingSettings;
  readonly brokerOptions: Readonly<Record<string, unknown>>;
  readonly transport: Readonly<Required<TransportOptions>>;
  readonly connectTimeoutMs: number;
  readonly sendTimeoutMs: number;
  readonly nestHeaders: boolean;
}

const MAX_PRIORITY = 255;
const MAX_EXPIRES_SECONDS = 2 ** 31 - 1;

/** @param driver - the option that has what the URL cannot say */
const url = (driver: string): Rule => ({
  expected:
    'a URL that begins with amqp://, amqps://, redis:// or rediss://; user, password and path percent-encoded (% as ' +
    '%25); heartbeat, frameMax and channelMax whole numbers',
  check: (value) =>
    isUrl(value) &&
    malformedPart(value) === undefined &&
    tlsParameters(value).length === 0 &&
    ['heartbeat', 'frameMax', 'channelMax'].every((name) =>
      /^\d*$/.test(new URL(value).searchParams.get(name) ?? ''),
    ),
  describe: (value) => {
    if (!isUrl(value)) return undefined;
    const part = malformedPart(value);
    if (part !== undefined) return `one whose ${part} has a % that begins no percent-encoded UTF-8`;
    const parameters = tlsParameters(value);
    if (parameters.length === 0) return undefined;
    const place = value.startsWith('redis') ? `${driver}.tls` : driver;
    return `one with ${parameters.join(', ')}: give them in ${place} (ca, cert, key)`;
  },
});
const brokerUrl = url('brokerOptions');
const byName = (what: string): Rule => ({ expected: `an object of ${what} by name`, check: isRecord });
const driverOptions: Rule = { expected: "an object of the driver's options", check: isRecord };

/** @internal */
export const CELERY_RULES: Rules = {
  broker: {
    ...brokerUrl,
    expected: `${brokerUrl.expected}; or a function that makes a broker`,
    check: (value) => isFunction(value) || brokerUrl.check(value),
  },
  backend: url('backendOptions'),
  queue: text,
  queues: byName('queues'),
  routes: byName('routes'),
  brokerOptions: driverOptions,
  backendOptions: driverOptions,
  resultExpiresSeconds: {
    expected: `a whole number of seconds from 1 to ${String(MAX_EXPIRES_SECONDS)}`,
    check: (value) => isPositive(value, MAX_EXPIRES_SECONDS),
  },
  resultKeyPrefix: { expected: 'a string', check: (value) => typeof value === 'string' },
  transportOptions: { expected: 'an object { globalKeyprefix?, prioritySteps?, sep? }', check: isRecord },
  connectTimeoutMs: milliseconds,
  sendTimeoutMs: milliseconds,
  nestHeaders: { expected: 'a boolean', check: (value) => typeof value === 'boolean' },
};

const priority: Rule = {
  expected: `an integer from 0 to ${String(MAX_PRIORITY)}`,
  check: (value) => value === 0 || isPositive(value, MAX_PRIORITY),
};

/** @internal */
export const QUEUE_RULES: Rules = {
  type: { expected: "'classic' or 'quorum'", check: (value) => value === 'classic' || value === 'quorum' },
  maxPriority: {
    expected: `an integer from 1 to ${String(MAX_PRIORITY)}`,
    check: (value) => isPositive(value, MAX_PRIORITY),
  },
  exchange: text,
  exchangeType: {
    expected: "'direct', 'topic', 'fanout' or 'headers'",
    check: (value) => ['direct', 'topic', 'fanout', 'headers'].includes(value as string),
  },
  routingKey: text,
  arguments: {
    expected: 'an object of strings, numbers and booleans',
    check: (value) =>
      isRecord(value) &&
      Object.values(value).every((item) => ['string', 'number', 'boolean'].includes(typeof item)),
  },
};

/** @internal */
export const ROUTE_RULES: Rules = {
  queue: text,
  exchange: { expected: 'a string', check: (value) => typeof value === 'string' },
  routingKey: text,
  priority,
};

/** @internal */
export const TRANSPORT_RULES: Rules = {
  globalKeyprefix: { expected: 'a string', check: (value) => typeof value === 'string' },
  prioritySteps: {
    expected: 'an array of integers from 0 to 9, the first 0, each above the one before',
    check: (value) => Array.isArray(value) && isSteps(value),
  },
  sep: text,
};

/** @throws ERR_CELERY_OUTBOX_INVALID_OPTION, ERR_CELERY_OUTBOX_UNKNOWN_OPTION */
export function parseCeleryOptions(celery: CeleryOptions): CelerySettings {
  assertOptions('celery', CELERY_RULES, celery);
  requireOption('celery', 'broker', CELERY_RULES, celery.broker);
  const { queues = {}, routes = {}, transportOptions = {} } = celery;
  for (const [name, queue] of Object.entries(queues))
    assertOptions(`celery.queues.${name}`, QUEUE_RULES, queue);
  for (const [name, route] of Object.entries(routes))
    assertOptions(`celery.routes.${name}`, ROUTE_RULES, route);
  assertOptions('celery.transportOptions', TRANSPORT_RULES, transportOptions);
  const connectTimeoutMs = celery.connectTimeoutMs ?? 5_000;
  return Object.freeze({
    broker: typeof celery.broker === 'string' ? celery.broker : '',
    createOwnBroker: typeof celery.broker === 'function' ? celery.broker : null,
    backend:
      celery.backend === undefined
        ? undefined
        : {
            url: celery.backend,
            options: backendOptions(celery, celery.backend),
            connectTimeoutMs,
            expiresSeconds: celery.resultExpiresSeconds ?? 86_400,
            keyPrefix: (celery.resultKeyPrefix ?? '').replace(/[^:_.-]$/, '$&_'),
          },
    routing: {
      defaultQueue: celery.queue ?? 'celery',
      queues: structuredClone(queues),
      routes: compileRoutes(structuredClone(routes)),
    },
    brokerOptions: { ...celery.brokerOptions },
    transport: {
      globalKeyprefix: transportOptions.globalKeyprefix ?? '',
      prioritySteps: [...(transportOptions.prioritySteps ?? [0, 3, 6, 9])],
      sep: transportOptions.sep ?? '\x06\x16',
    },
    connectTimeoutMs,
    sendTimeoutMs: celery.sendTimeoutMs ?? 10_000,
    nestHeaders: celery.nestHeaders ?? true,
  });
}

function backendOptions(
  { broker, brokerOptions, backendOptions: given }: CeleryOptions,
  backend: string,
): Record<string, unknown> {
  if (given !== undefined) return { ...given };
  if (typeof broker !== 'string' || !isSameRedis(broker, backend)) return {};
  const { db: _, ...shared } = { ...brokerOptions };
  return shared;
}

function isSameRedis(one: string, other: string): boolean {
  const [{ protocol, host }, compared] = [new URL(one), new URL(other)];
  return /^rediss?:$/.test(protocol) && protocol === compared.protocol && host === compared.host;
}

function isUrl(value: unknown): value is string {
  return typeof value === 'string' && /^(amqps?|rediss?):\/\//.test(value) && URL.canParse(value);
}

/** Only its name: even the path may hold part of a password, of which a slash was not encoded. */
function malformedPart(value: string): string | undefined {
  const { username, password, pathname } = new URL(value);
  const parts = { user: username, password, path: pathname };
  return Object.entries(parts).find(([, part]) => !isDecodable(part))?.[0];
}

/** What kombu reads of a URL and we do not: files of Python's ssl. Left out, they would be missed only on the wire. */
function tlsParameters(value: string): string[] {
  const names = [...new URL(value).searchParams.keys()];
  return [...new Set(names)].filter((name) => /^ssl_\w+$/.test(name) && name !== 'ssl_cert_reqs');
}

function isDecodable(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

function isSteps(steps: readonly unknown[]): boolean {
  return (
    steps[0] === 0 &&
    steps.every((step, index) => {
      const before = index === 0 ? -1 : steps[index - 1];
      return Number.isInteger(step) && (step as number) <= 9 && (step as number) > (before as number);
    })
  );
}
