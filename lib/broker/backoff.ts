const FIRST_MS = 100;
const MAX_MS = 5_000;

/** How long to leave a server alone after attempts that failed: each time twice as long, and not all of us at once. */
export class Backoff {
  #failures = 0;
  #until = -Infinity;

  get isOver(): boolean {
    return performance.now() >= this.#until;
  }

  failed(): void {
    const ms = Math.min(MAX_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#until = performance.now() + ms * (0.5 + Math.random() / 2);
  }

  succeeded(): void {
    this.#failures = 0;
    this.#until = -Infinity;
  }
}
