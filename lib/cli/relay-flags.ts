import { type FlagValues, isGiven, oneOf, seconds, text, whole } from './flags';

function retention(given: string, name: string): 'immediately' | 'never' | number {
  return given === 'immediately' || given === 'never' ? given : seconds(given, name);
}

/** Flags of `celery-outbox relay`. Times are in seconds. */
export const RELAY_FLAGS = {
  'database-url': { value: 'URL', env: 'DATABASE_URL', parse: text, help: 'PostgreSQL' },
  broker: { value: 'URL', env: 'CELERY_BROKER_URL', parse: text, help: 'amqp(s):// or redis(s)://' },
  backend: { value: 'URL', env: 'CELERY_RESULT_BACKEND', parse: text, help: 'result backend, for chords' },
  queue: { value: 'NAME', parse: text, help: 'queue for tasks that name none (celery)' },
  redis: {
    value: 'URL',
    env: 'REDIS_URL',
    parse: text,
    help: 'Bull and the leader lock; without it a local timer',
  },
  config: {
    value: 'FILE',
    parse: text,
    help: 'module that exports options of createRelay; flags win over it',
  },
  'table-name': { value: 'NAME', parse: text, help: 'outbox table (celery_outbox)' },
  schema: { value: 'NAME', parse: text, help: 'schema of the tables (that of the search_path)' },
  name: { value: 'NAME', parse: text, help: 'name of the Bull queue and of the lock (celery-outbox)' },
  'batch-size': { value: 'N', parse: whole, help: 'rows of one claim (1000)' },
  'batches-in-flight': { value: 'N', parse: whole, help: 'batches that are worked on at a time (3)' },
  'idle-time': { value: 'S', parse: seconds, help: 'wait when there is nothing to do (1)' },
  'backoff-time': {
    value: 'S',
    parse: seconds,
    help: 'wait before the first retry, doubled each time (120)',
  },
  'max-backoff': { value: 'S', parse: seconds, help: 'longest wait before a retry (3600)' },
  'max-retries': { value: 'N', parse: whole, help: 'retries before a task becomes a dead letter (5)' },
  'stale-timeout-seconds': { value: 'S', parse: seconds, help: 'lease of claimed rows (60)' },
  'send-timeout': { value: 'S', parse: seconds, help: 'how long the broker may take to acknowledge (10)' },
  'shutdown-timeout': { value: 'S', parse: seconds, help: 'how long to finish what is in flight (30)' },
  'broker-outage-cooldown': { value: 'S', parse: seconds, help: 'pause when the broker is away (30)' },
  'on-dead-letter': {
    value: 'skip|block',
    parse: oneOf('skip', 'block'),
    help: 'whether a dead letter holds its ordering key (skip)',
  },
  'clean-up-after': {
    value: 'immediately|never|S',
    parse: retention,
    help: 'how long sent rows stay in the archive (immediately)',
  },
  partitions: { value: 'N', parse: whole, help: 'leaders that share the table (1)' },
  'lock-ttl': { value: 'S', parse: seconds, help: 'how long a dead leader is waited for (10)' },
  'no-notify': { parse: isGiven, help: 'do not LISTEN for commits: only poll' },
  'liveness-file': { value: 'FILE', parse: text, help: 'touched while the relay works' },
  'log-level': {
    value: 'LEVEL',
    parse: oneOf('debug', 'info', 'warn', 'error'),
    help: 'debug, info, warn or error (info)',
  },
  once: { parse: isGiven, help: 'send what is there, print a summary and exit' },
  help: { parse: isGiven, help: 'print this' },
} as const;

export type RelayFlags = FlagValues<typeof RELAY_FLAGS>;
