import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Knex } from 'knex';
import { type CeleryOptions, type CelerySettings, parseCeleryOptions } from './celery-options';
import type { LogContext } from './context/log-context';
import type { TraceSource } from './context/trace-headers';
import type { Redact } from './message/redact';
import {
  assertOptions,
  isFunction,
  isPositive,
  isRecord,
  milliseconds,
  requireOption,
  type Rules,
  text,
} from './assert-options';
import type { TableNames, TableOptions } from './store/table-names';
import { tableNames } from './store/table-names';
import { createDefaultLogger, type Logger } from './telemetry/logger';

export interface OutboxOptions extends TableOptions {
  /** A Knex instance for PostgreSQL. */
  knex: Knex;
  /** Where Celery is. Needed for `excludeTasks` and for results; the write path itself uses the database only. */
  celery?: CeleryOptions;
  /** Tasks that are sent to the broker at once, past the outbox. Needs `celery`. */
  excludeTasks?: readonly (string | RegExp)[];
  /** Refuse a send outside any transaction, instead of warning. @defaultValue false */
  strict?: boolean;
  /** Makes the args and kwargs that people may see. Fails closed. */
  redact?: Redact;
  /** Which fields of the log context are stored and sent on. @defaultValue all of them */
  logContext?: { keys: readonly string[] };
  /** Trace headers: false for none, a function for your own. @defaultValue Sentry, OpenTelemetry, the request */
  trace?: false | TraceSource;
  /** @defaultValue winston, JSON lines on standard output */
  logger?: Logger;
  /** Wake the relay after commits, over a connection of its own; without it, it only polls. @defaultValue true */
  notify?: boolean;
  /** Largest args + kwargs + options of one task, as JSON in UTF-8. @defaultValue 1048576 */
  maxPayloadBytes?: number;
  /** How long an idempotency key is remembered. @defaultValue 86400000 (a day) */
  idempotencyWindowMs?: number;
  /** How long PostgreSQL may take to answer BEGIN or COMMIT; a COMMIT's outcome is unknown then. @defaultValue 10000 */
  commitTimeoutMs?: number;
}

export interface OutboxSettings {
  readonly knex: Knex;
  readonly celery: CelerySettings | undefined;
  readonly excludeTasks: readonly (string | RegExp)[];
  readonly strict: boolean;
  readonly redact: Redact | undefined;
  readonly logContextKeys: ReadonlySet<string> | undefined;
  readonly trace: false | TraceSource | undefined;
  readonly logger: Logger;
  readonly notify: boolean;
  readonly maxPayloadBytes: number;
  readonly idempotencyWindowMs: number;
  readonly commitTimeoutMs: number;
  readonly names: TableNames;
}

// Methods, not functions: so that callbacks may ask for Express's Request and Response.
export interface MiddlewareOptions {
  /** Which requests get a transaction. @defaultValue every method but GET, HEAD and OPTIONS */
  when?(this: void, req: IncomingMessage): boolean;
  /** What happens when the client goes away before the answer. @defaultValue `rollback` */
  onAbort?: 'rollback' | 'continue';
  /** Whether the answer that is about to leave commits. @defaultValue status below 400 */
  shouldCommit?(this: void, req: IncomingMessage, res: ServerResponse): boolean;
  /** How long a handler may take until its response begins. @defaultValue 30000 */
  timeoutMs?: number;
  /** Log context of a request. */
  context?(this: void, req: IncomingMessage): LogContext;
}

export type MiddlewareSettings = Readonly<Required<Omit<MiddlewareOptions, 'context'>>> &
  Readonly<Pick<MiddlewareOptions, 'context'>>;

/** @internal */
export const OUTBOX_RULES: Rules = {
  knex: { expected: 'a Knex instance for PostgreSQL (client: pg), not a transaction', check: isPostgresKnex },
  celery: { expected: 'an object { broker, backend?, queue?, … }', check: isRecord },
  excludeTasks: {
    expected: 'an array of task names and regular expressions',
    check: (value) =>
      Array.isArray(value) && value.every((item) => typeof item === 'string' || item instanceof RegExp),
  },
  strict: { expected: 'a boolean', check: (value) => typeof value === 'boolean' },
  redact: { expected: 'a function', check: isFunction },
  logContext: {
    expected: 'an object { keys: string[] }',
    check: (value) =>
      isRecord(value) &&
      Object.keys(value).every((key) => key === 'keys') &&
      Array.isArray(value['keys']) &&
      value['keys'].every((key) => typeof key === 'string'),
  },
  trace: { expected: 'false or a function', check: (value) => value === false || isFunction(value) },
  logger: {
    expected: 'an object with debug, info, warn and error',
    check: (value) =>
      isRecord(value) && ['debug', 'info', 'warn', 'error'].every((level) => isFunction(value[level])),
  },
  notify: { expected: 'a boolean', check: (value) => typeof value === 'boolean' },
  maxPayloadBytes: {
    expected: 'a whole number of bytes above 0',
    check: (value) => isPositive(value, Number.MAX_SAFE_INTEGER),
  },
  idempotencyWindowMs: {
    expected: 'a whole number of milliseconds above 0',
    check: (value) => isPositive(value, Number.MAX_SAFE_INTEGER),
  },
  commitTimeoutMs: milliseconds,
  tableName: text,
  schema: text,
};

/** @internal */
export const MIDDLEWARE_RULES: Rules = {
  when: { expected: 'a function', check: isFunction },
  onAbort: {
    expected: "'rollback' or 'continue'",
    check: (value) => value === 'rollback' || value === 'continue',
  },
  shouldCommit: { expected: 'a function', check: isFunction },
  timeoutMs: milliseconds,
  context: { expected: 'a function', check: isFunction },
};

/** Options of createOutbox with their defaults, checked and frozen. */
export function parseOutboxOptions(options: OutboxOptions): OutboxSettings {
  assertOptions('createOutbox', OUTBOX_RULES, options);
  requireOption('createOutbox', 'knex', OUTBOX_RULES, options.knex);
  const excludeTasks = options.excludeTasks ?? [];
  if (excludeTasks.length > 0)
    requireOption('createOutbox with excludeTasks', 'celery', OUTBOX_RULES, options.celery);
  return Object.freeze({
    knex: options.knex,
    celery: options.celery && parseCeleryOptions(options.celery),
    excludeTasks: Object.freeze([...excludeTasks]),
    strict: options.strict ?? false,
    redact: options.redact,
    logContextKeys: options.logContext && new Set(options.logContext.keys),
    trace: options.trace,
    logger: options.logger ?? createDefaultLogger(),
    notify: options.notify ?? true,
    maxPayloadBytes: options.maxPayloadBytes ?? 1_048_576,
    idempotencyWindowMs: options.idempotencyWindowMs ?? 86_400_000,
    commitTimeoutMs: options.commitTimeoutMs ?? 10_000,
    names: tableNames(options),
  });
}

const READ_ONLY_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Options of the middleware with their defaults, checked and frozen. */
export function parseMiddlewareOptions(options: MiddlewareOptions = {}): MiddlewareSettings {
  assertOptions('middleware', MIDDLEWARE_RULES, options);
  return Object.freeze({
    when: options.when ?? ((req) => !READ_ONLY_METHODS.has(req.method ?? '')),
    onAbort: options.onAbort ?? 'rollback',
    shouldCommit: options.shouldCommit ?? ((_req, res) => res.statusCode < 400),
    timeoutMs: options.timeoutMs ?? 30_000,
    ...(options.context && { context: options.context }),
  });
}

function isPostgresKnex(value: unknown): boolean {
  const knex = value as
    { client?: { dialect?: unknown; driverName?: unknown }; isTransaction?: unknown } | null | undefined;
  return (
    typeof value === 'function' &&
    knex?.client?.dialect === 'postgresql' &&
    knex.client.driverName === 'pg' &&
    knex.isTransaction !== true
  );
}
