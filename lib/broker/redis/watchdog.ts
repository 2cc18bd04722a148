/**
 * Calls out when answers stop coming: Redis answers in the order it was asked, so each answer begins the turn of the
 * next. One timer for all that is asked.
 */
export class Watchdog {
  readonly #timeoutMs: number;
  readonly #onSilence: () => void;
  #waiting = 0;
  #answers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(timeoutMs: number, onSilence: () => void) {
    this.#timeoutMs = timeoutMs;
    this.#onSilence = onSilence;
  }

  expect(): void {
    this.#waiting += 1;
    if (this.#waiting === 1) this.#start();
  }

  answered(): void {
    this.#waiting -= 1;
    this.#answers += 1;
    if (this.#waiting === 0) this.stop();
    else this.#timer?.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    this.#timer = setTimeout(() => {
      // After a pause of the whole process, timers run before the answers that came meanwhile are read.
      const seen = this.#answers;
      setImmediate(() => {
        if (this.#answers === seen && this.#timer !== undefined) this.#onSilence();
      });
    }, this.#timeoutMs);
  }
}
