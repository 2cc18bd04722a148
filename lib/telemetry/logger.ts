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
} as const;

export type LogEvent = keyof typeof LOG_EVENTS;

export type Level = keyof Logger;

/** The logger for those who gave none: JSON lines on standard output, with the log context. */
export function createDefaultLogger(): Logger {
  return createLogger({
    level: 'info',
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
