import { createLogger, format, transports } from 'winston';
import { logContextFormat } from './winston-format';

/** What the outbox logs through: winston, pino, console and most others have this shape. */
export interface Logger {
  debug(message: string, fields?: object): unknown;
  info(message: string, fields?: object): unknown;
  warn(message: string, fields?: object): unknown;
  error(message: string, fields?: object): unknown;
}

/** Names of log events, with what they tell. They are API: people alert on them. */
export const LOG_EVENTS = {
  celery_outbox_not_in_transaction: 'A task was sent outside any transaction and stored on its own.',
  celery_outbox_send_unobserved: 'A send failed, and nobody awaited it.',
  celery_outbox_redaction_failed: 'redact failed; the task is stored with its arguments hidden.',
  celery_outbox_context_failed: 'Trace or log context could not be taken; the task is stored without it.',
  celery_outbox_answered_twice: 'A handler answered again while its first answer was being committed.',
  celery_outbox_signal_error: 'A listener of events threw or rejected.',
  celery_outbox_connection_error: 'A connection to the broker or the result backend failed or broke.',
  celery_outbox_relay_started: 'The relay has begun to send.',
  celery_outbox_relay_shutdown: 'The relay has stopped.',
  celery_outbox_batch_processed: 'A batch of rows is settled.',
  celery_outbox_send_failed: 'A task failed and will be tried again.',
  celery_outbox_max_retries_exceeded: 'A task was moved to the dead letters.',
  celery_outbox_breaker_trip: 'The broker is away; nothing is sent for the cooldown.',
  celery_outbox_breaker_open: 'A pass was left out: the broker is away.',
  celery_outbox_breaker_closed: 'The broker is back.',
  celery_outbox_lease_lost: 'Rows were taken over by another relay before they were settled.',
  celery_outbox_settle_failed: 'The outcome of a batch could not be written; it is tried again.',
  celery_outbox_pass_failed: 'A pass ended early: the database did not answer.',
  celery_outbox_retry_policy_failed: 'retryPolicy failed; the defaults were used.',
  celery_outbox_unknown_version: 'Rows of a newer version are left alone.',
  celery_outbox_upkeep_failed: 'Old rows of the archive or old idempotency keys could not be deleted.',
  celery_outbox_notify_failed: 'Relays could not be woken after a commit; they find the tasks by polling.',
  celery_outbox_listen_lost: 'The relay does not hear writers any more; it polls until it listens again.',
  celery_outbox_listening: 'The relay is woken by writers.',
  celery_outbox_leader_acquired: 'This relay has become the leader of partitions.',
  celery_outbox_leader_lost: 'This relay no longer leads partitions.',
  celery_outbox_redis_unavailable: 'Redis is away; the relay works without leader lock.',
  celery_outbox_redis_available: 'Redis is back; the relay works with the leader lock again.',
  celery_outbox_schedule_error: "Bull's schedule cannot run as it should.",
} as const;

export type LogEvent = keyof typeof LOG_EVENTS;

export type Level = keyof Logger;

/** The logger for those who gave none: JSON lines on standard output, with the log context. */
export function createDefaultLogger(level: Level = 'info'): Logger {
  return createLogger({
    level,
    format: format.combine(logContextFormat(), format.timestamp(), format.json()),
    transports: [new transports.Console()],
  });
}

/** Logs an event. A logger that throws or rejects must not fail the request or the pass that it reports on. */
export function logEvent(logger: Logger, level: Level, event: LogEvent, fields: object = {}): void {
  try {
    Promise.resolve(logger[level](event, fields)).catch(() => undefined);
  } catch {
    // There is no second logger to tell.
  }
}
