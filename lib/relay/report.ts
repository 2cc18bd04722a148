import { withLogContext } from '../context/log-context';
import { parseJson } from '../message/json-text';
import type { ClaimedRow } from '../store/relay/claim';
import type { OutboxEvents, TaskEvent } from '../telemetry/events';
import { logEvent, type Logger, type Level, type LogEvent } from '../telemetry/logger';
import type { Settled } from './settle';

/** Tells listeners and the log what became of the rows of a batch, when it is written. */
export class Report {
  readonly #events: OutboxEvents;
  readonly #logger: Logger;

  constructor(events: OutboxEvents, logger: Logger) {
    this.#events = events;
    this.#logger = logger;
  }

  settled({ written, lost }: Settled): void {
    for (const row of written.sent) this.#events.emit('sent', eventOf(row));
    for (const { row, error, delayMs } of written.retried) {
      const retries = row.retries + 1;
      this.log(row, 'warn', 'celery_outbox_send_failed', {
        error,
        retries,
        retry_in_ms: Math.round(delayMs),
      });
      this.#events.emit('failed', { ...eventOf(row), error, retries });
    }
    for (const { row, error, reason, retries } of written.dead) {
      this.log(row, 'error', 'celery_outbox_max_retries_exceeded', { error, reason, retries });
      this.#events.emit('deadLettered', { ...eventOf(row), error, reason, retries });
    }
    for (const { row, error } of written.deferred) this.#events.emit('deferred', { ...eventOf(row), error });
    if (lost > 0) logEvent(this.#logger, 'warn', 'celery_outbox_lease_lost', { rows: lost });
  }

  /** Logs something of one row, in the log context of the request that stored it. */
  log(row: ClaimedRow, level: Level, event: LogEvent, fields: object): void {
    withLogContext(contextOf(row), () => {
      logEvent(this.#logger, level, event, {
        task_id: row.taskId,
        task_name: row.taskName,
        ...fields,
      });
    });
  }
}

function eventOf({ taskId, taskName, orderingKey }: ClaimedRow): TaskEvent {
  return { taskId, taskName, orderingKey };
}

// Written by us; but a row can be edited.
function contextOf({ logContext }: ClaimedRow): Record<string, unknown> {
  if (logContext === null) return {};
  try {
    const context: unknown = parseJson(logContext);
    return typeof context === 'object' && context !== null && !Array.isArray(context)
      ? (context as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
