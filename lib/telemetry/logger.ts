import { createLogger, format, transports } from 'winston';
import { logContextFormat } from './winston-format';

/** What the outbox logs through: winston, pino, console and most others have this shape. */
export interface Logger {
  debug(message: string, fields?: object): unknown;
  info(message: string, fields?: object): unknown;
  warn(message: string, fields?: object): unknown;
  error(message: string, fields?: object): unknown;
}

/** Names of log events. They are API: people alert on them. */
export type LogEvent =
  | 'celery_outbox_not_in_transaction'
  | 'celery_outbox_signal_error'
  | 'celery_outbox_send_unobserved'
  | 'celery_outbox_redaction_failed'
  | 'celery_outbox_context_failed'
  | 'celery_outbox_answered_twice'
  | 'celery_outbox_connection_error';

export type Level = keyof Logger;

/** The logger for those who gave none: JSON lines on standard output, with the log context. */
export function createDefaultLogger(): Logger {
  return createLogger({
    level: 'info',
    format: format.combine(logContextFormat(), format.timestamp(), format.json()),
    transports: [new transports.Console()],
  });
}

/** Logs an event. A logger that throws must not fail the request or the pass that it reports on. */
export function logEvent(logger: Logger, level: Level, event: LogEvent, fields: object = {}): void {
  try {
    logger[level](event, fields);
  } catch {
    // There is no second logger to tell.
  }
}
