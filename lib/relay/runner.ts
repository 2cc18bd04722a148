import { settledWithin } from '../deadline';
import { logEvent, type Logger } from '../telemetry/logger';
import { NOTHING_DONE, type PassSummary } from './outcome';
import type { Pass } from './pass';

export interface RunnerParts {
  readonly createPass: () => Pass;
  readonly logger: Logger;
  readonly idleMs: number;
  /** How long to wait for somebody to ask for a pass before beginning one all the same. */
  readonly patienceMs: () => number;
  /** Called every idle time, with the milliseconds for which the pass under way has shown no progress. */
  readonly onBeat: (stalledMs: number) => void;
}

/** A timer is never quite on time; this much early is on time. */
const EARLY = 0.9;

/** Runs one pass at a time: when asked, and by itself when nobody asks. */
export class Runner {
  readonly #parts: RunnerParts;
  #current: { readonly pass: Pass; readonly summary: Promise<PassSummary> } | undefined;
  #isWanted = false;
  #lastPassAt = -Infinity;
  #progressAt = -Infinity;
  #beat: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** Milliseconds since the last pass began. */
  get lastPassAgeMs(): number {
    return performance.now() - this.#lastPassAt;
  }

  start(): void {
    this.#beat = setInterval(() => {
      this.#parts.onBeat(this.#current === undefined ? 0 : performance.now() - this.#progressAt);
      if (this.lastPassAgeMs >= this.#parts.patienceMs() * EARLY) this.wake();
    }, this.#parts.idleMs);
    this.#parts.onBeat(0);
    this.wake();
  }

  /** Something may be there to be sent. */
  wake(): void {
    this.pass().catch(() => undefined);
  }

  /** What the pass that is under way, or else a new one, has done. @throws ERR_CELERY_OUTBOX_DATABASE */
  pass(): Promise<PassSummary> {
    if (this.#isStopped) return Promise.resolve(NOTHING_DONE);
    if (this.#current === undefined) return this.#begin();
    // It may have looked for the last time already.
    this.#isWanted = true;
    this.#current.pass.nudge();
    return this.#current.summary;
  }

  /** As {@link pass}, for whoever asks every idle time: one that has just begun, or ended, will do. */
  tick(): Promise<PassSummary> {
    if (this.#current !== undefined) return this.#current.summary;
    return this.lastPassAgeMs < this.#parts.idleMs / 2 ? Promise.resolve(NOTHING_DONE) : this.pass();
  }

  /** The pass under way did something. */
  progressed(): void {
    this.#progressAt = performance.now();
  }

  /** Begins no more passes. @returns whether the one under way ended in time */
  async stop(timeoutMs: number): Promise<boolean> {
    this.#isStopped = true;
    clearInterval(this.#beat);
    this.#current?.pass.nudge();
    return this.#current === undefined || settledWithin(this.#current.summary, timeoutMs);
  }

  #begin(): Promise<PassSummary> {
    this.#isWanted = false;
    this.#lastPassAt = performance.now();
    this.progressed();
    const pass = this.#parts.createPass();
    const summary = this.#run(pass);
    this.#current = { pass, summary };
    return summary;
  }

  async #run(pass: Pass): Promise<PassSummary> {
    try {
      return await pass.run();
    } catch (error) {
      logEvent(this.#parts.logger, 'error', 'celery_outbox_pass_failed', { error });
      // Nothing would be different at once.
      this.#isWanted = false;
      throw error;
    } finally {
      this.#current = undefined;
      if (this.#isWanted) this.wake();
    }
  }
}
