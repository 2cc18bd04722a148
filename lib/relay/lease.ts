import type { RelayStore } from './relay-store';

/** How much of a lease passes before it is renewed. */
const RENEW_AFTER = 1 / 3;

/**
 * The time for which claimed rows are ours, kept up while they are worked on.
 *
 * Counted from before the claim was asked for, on a clock that goes on while the process is frozen: so it ends here
 * before it ends in the database.
 */
export class Lease {
  readonly #store: RelayStore;
  readonly #token: string;
  readonly #ids: readonly string[];
  readonly #leaseMs: number;
  readonly #onError: (error: unknown) => void;
  #endsAt: number;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;

  constructor(
    claim: { readonly token: string; readonly ids: readonly string[]; readonly claimedAt: number },
    { store, leaseMs, onError }: { store: RelayStore; leaseMs: number; onError: (error: unknown) => void },
  ) {
    this.#store = store;
    this.#token = claim.token;
    this.#ids = claim.ids;
    this.#leaseMs = leaseMs;
    this.#onError = onError;
    this.#endsAt = claim.claimedAt + leaseMs;
    this.#schedule();
  }

  /** Milliseconds for which nobody else can have the rows; none when it has ended. */
  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** Lets it run out. Resolves when no renewal is under way. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#renewing;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#renewing = this.#renew();
    }, this.#leaseMs * RENEW_AFTER);
  }

  async #renew(): Promise<void> {
    const begunAt = performance.now();
    try {
      const kept = await this.#store.renew({ token: this.#token, ids: this.#ids });
      // An answer after the end proves nothing: somebody else may have had some of the rows in between.
      if (this.remainingMs > 0 && kept.size > 0) this.#endsAt = begunAt + this.#leaseMs;
    } catch (error) {
      this.#onError(error);
    }
    this.#renewing = undefined;
    if (this.remainingMs > 0) this.#schedule();
  }
}
