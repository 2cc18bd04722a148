import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from './logger';

/** A task that is stored. */
export interface TaskEvent {
  readonly taskId: string;
  readonly taskName: string;
  readonly orderingKey: string | null;
}

/** A task whose transaction is committed. */
export type CreatedEvent = TaskEvent;

/** A task that the broker did not take. */
export interface UnsentEvent extends TaskEvent {
  readonly error: string;
}

/** A task that failed by its own fault. */
export interface FailedEvent extends UnsentEvent {
  /** How often it has failed, this time included. */
  readonly retries: number;
}

/** A task that was moved to the dead letters. */
export interface DeadLetteredEvent extends FailedEvent {
  /** An error code, or `max_retries_exceeded`. */
  readonly reason: string;
}

/** In the web process only `created`, in a relay all the others; each when it is written. */
export interface OutboxEventMap {
  /** Once per stored task, after COMMIT was proven. */
  created: CreatedEvent;
  /** The broker acknowledged it, and it has left the outbox. */
  sent: TaskEvent;
  /** It will be tried again. */
  failed: FailedEvent;
  /** The broker was away; it waits, and loses no retry. */
  deferred: UnsentEvent;
  deadLettered: DeadLetteredEvent;
}

export type OutboxEventName = keyof OutboxEventMap;
export type OutboxListener<E extends OutboxEventName> = (event: OutboxEventMap[E]) => unknown;

const EVENT_NAMES: readonly OutboxEventName[] = ['created', 'sent', 'failed', 'deferred', 'deadLettered'];

/**
 * Events that cannot hurt: a listener that throws or rejects is logged as `celery_outbox_signal_error`, and
 * nothing else changes.
 */
export class OutboxEvents {
  readonly #logger: Logger;
  readonly #listeners = new Map<OutboxEventName, Set<OutboxListener<OutboxEventName>>>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** @throws ERR_CELERY_OUTBOX_INVALID_OPTION for an event that does not exist. */
  on<E extends OutboxEventName>(event: E, listener: OutboxListener<E>): this {
    if (!EVENT_NAMES.includes(event)) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_INVALID_OPTION',
        `events has no event ${JSON.stringify(event)}, only: ${EVENT_NAMES.join(', ')}`,
      );
    }
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener as OutboxListener<OutboxEventName>));
    return this;
  }

  off<E extends OutboxEventName>(event: E, listener: OutboxListener<E>): this {
    this.#listeners.get(event)?.delete(listener as OutboxListener<OutboxEventName>);
    return this;
  }

  /** @internal */
  emit<E extends OutboxEventName>(event: E, payload: OutboxEventMap[E]): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      const report = (error: unknown): void => {
        logEvent(this.#logger, 'error', 'celery_outbox_signal_error', { event, error });
      };
      try {
        Promise.resolve(listener(payload)).catch(report);
      } catch (error) {
        report(error);
      }
    }
  }
}
