/** How many batches in a row have to meet an outage before nothing more is sent. */
const THRESHOLD = 2;

/**
 * Keeps the relay from hammering at a broker that is away. Two batches in a row that met nothing but an outage open it
 * for the cooldown; after that one batch goes ahead, and the first outage opens it again.
 */
export class Breaker {
  readonly #cooldownMs: number;
  readonly #now: () => number;
  #outages = 0;
  #openUntil = 0;

  constructor(cooldownMs: number, now: () => number = () => performance.now()) {
    this.#cooldownMs = cooldownMs;
    this.#now = now;
  }

  get isOpen(): boolean {
    return this.#now() < this.#openUntil;
  }

  /** Whether the last that was heard of the broker is an outage. */
  get isProbing(): boolean {
    return this.#outages > 0;
  }

  /** Milliseconds until it lets the next batch through. */
  get remainingMs(): number {
    return Math.max(0, this.#openUntil - this.#now());
  }

  /** @returns whether it opened */
  outage(): boolean {
    this.#outages += 1;
    if (this.#outages < THRESHOLD || this.isOpen) return false;
    this.#openUntil = this.#now() + this.#cooldownMs;
    // The next outage after the cooldown is one too many again.
    this.#outages = THRESHOLD - 1;
    return true;
  }

  /** @returns whether it was not quite closed before */
  success(): boolean {
    const wasOpen = this.#openUntil > 0;
    this.#outages = 0;
    this.#openUntil = 0;
    return wasOpen;
  }
}
