import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from './logger';

/** A task that is stored: its transaction is committed. */
export interface CreatedEvent {
  readonly taskId: string;
  readonly taskName: string;
  readonly orderingKey: string | null;
}

export interface OutboxEventMap {
  /** Once per stored task, after COMMIT was proven. */
  created: CreatedEvent;
}

export type OutboxEventName = keyof OutboxEventMap;
export type OutboxListener<E extends OutboxEventName> = (event: OutboxEventMap[E]) => unknown;

const EVENT_NAMES: readonly OutboxEventName[] = ['created'];

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
