import { assertSync } from '../assert-options';
import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from '../telemetry/logger';

/** What is done with a task that failed. */
export interface RetryPolicy {
  /** How often it is tried again after the first failure. */
  maxRetries?: number;
  /** Wait before the first retry; each further one takes twice as long. */
  backoffMs?: number;
}

export interface RetryDefaults {
  readonly maxRetries: number;
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
}

/** One failure more is counted, in a smallint. */
const MAX_RETRIES = 32_766;
/** Beyond any limit, and yet a number: 0 × Infinity is none. */
const MAX_DOUBLINGS = 52;
/** Of a delay is added at random, or taken off at the limit, so that what failed together is not tried again together. */
const JITTER = 0.1;

/** Decides after a failure: how long to wait, or that it was the last one. */
export class Retries {
  readonly #defaults: RetryDefaults;
  readonly #ofTask: ((taskName: string) => RetryPolicy | undefined) | undefined;
  readonly #logger: Logger;

  constructor(
    defaults: RetryDefaults,
    ofTask: ((taskName: string) => RetryPolicy | undefined) | undefined,
    logger: Logger,
  ) {
    this.#defaults = defaults;
    this.#ofTask = ofTask;
    this.#logger = logger;
  }

  /** Whether a task has failed too often to be tried at all: the limit was lowered meanwhile. */
  isExhausted(taskName: string, failures: number): boolean {
    return failures > this.#policy(taskName).maxRetries;
  }

  /** Milliseconds to wait after so many failures, the last one included; null if there is no further attempt. */
  delayAfter(taskName: string, failures: number): number | null {
    const { maxRetries, backoffMs } = this.#policy(taskName);
    if (failures > maxRetries) return null;
    const { maxBackoffMs } = this.#defaults;
    const backoff = backoffMs * 2 ** Math.min(failures - 1, MAX_DOUBLINGS);
    const shortest = Math.min(backoff, maxBackoffMs * (1 - JITTER));
    const longest = Math.min(backoff * (1 + JITTER), maxBackoffMs);
    return shortest + Math.random() * (longest - shortest);
  }

  #policy(taskName: string): { readonly maxRetries: number; readonly backoffMs: number } {
    const report = (error: unknown): void => {
      logEvent(this.#logger, 'error', 'celery_outbox_retry_policy_failed', { task_name: taskName, error });
    };
    try {
      const answer = assertSync(this.#ofTask?.(taskName), 'createRelay: retryPolicy', report);
      const { maxRetries = this.#defaults.maxRetries, backoffMs = this.#defaults.backoffMs } = answer ?? {};
      assertInteger('maxRetries', maxRetries, MAX_RETRIES);
      assertInteger('backoffMs', backoffMs, Number.MAX_SAFE_INTEGER);
      return { maxRetries, backoffMs };
    } catch (error) {
      // A task must not be lost, nor stay claimed, for a mistake in somebody's function.
      report(error);
      return this.#defaults;
    }
  }
}

function assertInteger(name: string, value: unknown, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= max) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `createRelay: retryPolicy must answer with a whole number of 0 or more as ${name}, got ${String(value)}`,
  );
}
