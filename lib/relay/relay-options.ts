import type { Knex } from 'knex';
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
} from '../assert-options';
import { type CeleryOptions, type CelerySettings, parseCeleryOptions } from '../celery-options';
import { OUTBOX_RULES } from '../options';
import { type TableNames, tableNames, type TableOptions } from '../store/table-names';
import { createDefaultLogger, type Logger } from '../telemetry/logger';
import type { LeadershipOptions } from './leadership/leadership';
import type { RetryPolicy } from './retry-policy';

export interface RelayOptions extends TableOptions {
  /** A Knex instance for PostgreSQL, with a pool of at least {@link batchesInFlight} + 2 connections. */
  knex: Knex;
  /** Where Celery is. */
  celery: CeleryOptions;
  /** Redis for the Bull schedule and the leader lock: a URL or ioredis's options. Without it a local timer is used. */
  redis?: LeadershipOptions['redis'];
  /** What Bull's queue is called, and keys of the lock begin with. @defaultValue `celery-outbox` */
  name?: string;
  /** @defaultValue winston, JSON lines on standard output */
  logger?: Logger;
  /** Rows of one claim. @defaultValue 1000 */
  batchSize?: number;
  /** Batches between claim and settlement at a time: with `batchSize`, what a killed relay may send twice. @defaultValue 3 */
  batchesInFlight?: number;
  /** How long the relay waits when there is nothing to do. @defaultValue 1000 */
  idleMs?: number;
  /** How long claimed rows are kept from other relays; renewed while they are worked on. @defaultValue 60000 */
  leaseMs?: number;
  /** Wait before the first retry; each further one takes twice as long. @defaultValue 120000 */
  backoffMs?: number;
  /** The longest wait before a retry. @defaultValue 3600000 */
  maxBackoffMs?: number;
  /** How often a task is tried again before it becomes a dead letter. @defaultValue 5 */
  maxRetries?: number;
  /** Another limit or back-off for some tasks. */
  retryPolicy?: (taskName: string) => RetryPolicy | undefined;
  /** How long nothing is sent when the broker is away. @defaultValue 30000 */
  outageCooldownMs?: number;
  /** How long {@link Relay.stop} waits for what is in flight. @defaultValue 30000 */
  shutdownTimeoutMs?: number;
  /** How long one statement may take. @defaultValue 30000 */
  databaseTimeoutMs?: number;
  /** Whether a dead letter holds the later tasks of its ordering key back. @defaultValue `skip` */
  onDeadLetter?: 'skip' | 'block';
  /** What becomes of rows that were sent: kept in the archive for so many milliseconds, or for ever. @defaultValue `immediately` */
  cleanUpAfter?: 'immediately' | 'never' | number;
  /** The same as that of `createOutbox`: older keys are deleted. @defaultValue 86400000 (a day) */
  idempotencyWindowMs?: number;
  /** Leaders that share the table. The same for all relays. @defaultValue 1 */
  partitions?: number;
  /** How long a leader that died is waited for. @defaultValue 10000 */
  lockTtlMs?: number;
  /** Whether to LISTEN for commits. Not through pgbouncer in transaction mode. @defaultValue true */
  notify?: boolean;
  /** A file whose time is set at least every {@link idleMs} while the relay works. */
  livenessFile?: string;
}

export interface RelaySettings extends Readonly<
  Required<Omit<RelayOptions, 'celery' | 'redis' | 'retryPolicy' | 'livenessFile' | keyof TableOptions>>
> {
  readonly celery: CelerySettings;
  readonly redis: LeadershipOptions['redis'] | undefined;
  readonly retryPolicy: RelayOptions['retryPolicy'];
  readonly livenessFile: string | undefined;
  readonly names: TableNames;
}

const MAX_BATCH = 10_000;
const MAX_PARTITIONS = 64;

const whole = (max: number): Rule => ({
  expected: `a whole number from 1 to ${String(max)}`,
  check: (value) => isPositive(value, max),
});

/** @internal */
export const RELAY_RULES: Rules = {
  knex: OUTBOX_RULES['knex'] as Rule,
  celery: { expected: 'an object { broker, backend?, queue?, … }', check: isRecord },
  redis: {
    expected: "a URL that begins with redis:// or rediss://, or an object of ioredis's options, not a client",
    check: (value) =>
      typeof value === 'string' ? isRedisUrl(value) : isRecord(value) && !isFunction(value['on']),
  },
  name: {
    expected: 'a name of letters, digits, ., _ and -',
    check: (value) => typeof value === 'string' && /^[\w.-]+$/.test(value),
  },
  logger: OUTBOX_RULES['logger'] as Rule,
  batchSize: whole(MAX_BATCH),
  batchesInFlight: whole(100),
  idleMs: milliseconds,
  leaseMs: milliseconds,
  backoffMs: milliseconds,
  maxBackoffMs: milliseconds,
  maxRetries: {
    expected: 'a whole number from 0 to 32766',
    check: (value) => value === 0 || isPositive(value, 32_766),
  },
  retryPolicy: { expected: 'a function', check: isFunction },
  outageCooldownMs: milliseconds,
  shutdownTimeoutMs: milliseconds,
  databaseTimeoutMs: milliseconds,
  onDeadLetter: { expected: "'skip' or 'block'", check: (value) => value === 'skip' || value === 'block' },
  cleanUpAfter: {
    expected: "'immediately', 'never' or a whole number of milliseconds above 0",
    check: (value) =>
      value === 'immediately' || value === 'never' || isPositive(value, Number.MAX_SAFE_INTEGER),
  },
  idempotencyWindowMs: OUTBOX_RULES['idempotencyWindowMs'] as Rule,
  partitions: whole(MAX_PARTITIONS),
  lockTtlMs: {
    expected: `a whole number of milliseconds from 100 to ${String(2 ** 31 - 1)}`,
    check: (value) => isPositive(value, 2 ** 31 - 1) && (value as number) >= 100,
  },
  notify: { expected: 'a boolean', check: (value) => typeof value === 'boolean' },
  livenessFile: text,
  tableName: text,
  schema: text,
};

/** Options of createRelay with their defaults, checked and frozen. */
export function parseRelayOptions(options: RelayOptions): RelaySettings {
  assertOptions('createRelay', RELAY_RULES, options);
  for (const name of ['knex', 'celery'] as const)
    requireOption('createRelay', name, RELAY_RULES, options[name]);
  return Object.freeze({
    knex: options.knex,
    celery: parseCeleryOptions(options.celery),
    redis: options.redis,
    name: options.name ?? 'celery-outbox',
    logger: options.logger ?? createDefaultLogger(),
    batchSize: options.batchSize ?? 1_000,
    batchesInFlight: options.batchesInFlight ?? 3,
    idleMs: options.idleMs ?? 1_000,
    leaseMs: options.leaseMs ?? 60_000,
    backoffMs: options.backoffMs ?? 120_000,
    maxBackoffMs: options.maxBackoffMs ?? 3_600_000,
    maxRetries: options.maxRetries ?? 5,
    retryPolicy: options.retryPolicy,
    outageCooldownMs: options.outageCooldownMs ?? 30_000,
    shutdownTimeoutMs: options.shutdownTimeoutMs ?? 30_000,
    databaseTimeoutMs: options.databaseTimeoutMs ?? 30_000,
    onDeadLetter: options.onDeadLetter ?? 'skip',
    cleanUpAfter: options.cleanUpAfter ?? 'immediately',
    idempotencyWindowMs: options.idempotencyWindowMs ?? 86_400_000,
    partitions: options.partitions ?? 1,
    lockTtlMs: options.lockTtlMs ?? 10_000,
    notify: options.notify ?? true,
    livenessFile: options.livenessFile,
    names: tableNames(options),
  });
}

function isRedisUrl(value: string): boolean {
  return /^rediss?:\/\//.test(value) && URL.canParse(value);
}
