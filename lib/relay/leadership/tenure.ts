/** What a relay gained and lost with an election. */
export interface Turnover {
  readonly acquired: readonly number[];
  readonly lost: readonly number[];
}

/**
 * The partitions that an election gave to this relay, until its locks run out. By performance.now(), which goes on
 * while a process is frozen and cannot be set: so it knows in time what other relays may have taken meanwhile.
 */
export class Tenure {
  #own: readonly number[] = [];
  #endsAt: number | undefined;

  /** Undefined before the first election. */
  get endsAt(): number | undefined {
    return this.#endsAt;
  }

  get partitions(): readonly number[] {
    return performance.now() <= (this.#endsAt ?? -Infinity) ? this.#own : [];
  }

  begin(own: readonly number[], endsAt: number): Turnover {
    const before = this.#own;
    this.#own = own;
    this.#endsAt = endsAt;
    return {
      acquired: own.filter((partition) => !before.includes(partition)),
      lost: before.filter((partition) => !own.includes(partition)),
    };
  }
}
