import { reasonOf } from '../../broker/redis/failure';
import { logEvent, type Logger } from '../../telemetry/logger';

/** Logs what goes wrong with Bull: once, until it works for every partition again. */
export class ScheduleErrors {
  readonly #logger: Logger;
  readonly #relayId: string;
  readonly #failing = new Set<number>();

  constructor(logger: Logger, relayId: string) {
    this.#logger = logger;
    this.#relayId = relayId;
  }

  failed(partition: number, error: unknown): void {
    const isFirst = this.#failing.size === 0;
    this.#failing.add(partition);
    if (!isFirst) return;
    logEvent(this.#logger, 'warn', 'celery_outbox_schedule_error', {
      // Not the error itself: ioredis hangs the command with its arguments on it, which may be a password.
      error: new Error(reasonOf(error)),
      partition,
      relay_id: this.#relayId,
    });
  }

  /** Also when it is no longer this relay's. */
  recovered(partition: number): void {
    this.#failing.delete(partition);
  }
}
