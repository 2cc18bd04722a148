import type { ClaimedRow } from '../store/relay/claim';

/**
 * In which order the rows of a batch are handed over: all that have no ordering key at once, those of one key one after
 * another. What was not handed over when it ends was never started.
 */
export class Turns {
  /** Of each key the rows to come, last first. */
  readonly #waiting: ClaimedRow[][];
  #first: readonly ClaimedRow[];

  constructor(rows: readonly ClaimedRow[]) {
    const byKey = new Map<string, ClaimedRow[]>();
    for (const row of rows) {
      if (row.orderingKey === null) continue;
      const ofKey = byKey.get(row.orderingKey) ?? [];
      byKey.set(row.orderingKey, ofKey);
      ofKey.push(row);
    }
    this.#waiting = [...byKey.values()].map((ofKey) => ofKey.sort(byIdDescending));
    this.#first = rows.filter((row) => row.orderingKey === null);
  }

  /** The rows whose turn it is; none when all had it. */
  next(): ClaimedRow[] {
    const turn = [...this.#first];
    this.#first = [];
    for (const ofKey of this.#waiting) {
      const row = ofKey.pop();
      if (row !== undefined) turn.push(row);
    }
    return turn;
  }

  /** A row was not published: those behind it have to wait. @returns them */
  hold({ orderingKey }: ClaimedRow): ClaimedRow[] {
    if (orderingKey === null) return [];
    const index = this.#waiting.findIndex((ofKey) => ofKey.at(-1)?.orderingKey === orderingKey);
    return index === -1 ? [] : this.#waiting.splice(index, 1).flat();
  }

  /** Everything that has not had its turn. */
  rest(): ClaimedRow[] {
    const rest = [...this.#first, ...this.#waiting.splice(0).flat()];
    this.#first = [];
    return rest;
  }
}

function byIdDescending(a: ClaimedRow, b: ClaimedRow): number {
  if (a.id.length !== b.id.length) return b.id.length - a.id.length;
  return a.id < b.id ? 1 : -1;
}
