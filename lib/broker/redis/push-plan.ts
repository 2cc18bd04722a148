/** Bounds of one command: what Redis does without others waiting long, and what a socket takes without much memory. */
const MAX_VALUES = 500;
const MAX_LENGTH = 1024 * 1024;

/** One LPUSH. */
export interface Push {
  readonly key: string;
  /** In the order in which workers are to take them. */
  readonly values: string[];
  /** Of the message that each value is a copy of. */
  readonly indexes: number[];
}

/** Gathers values into as few commands as the bounds allow; those of one list stay in order. */
export class PushPlan {
  readonly pushes: Push[] = [];
  readonly #open = new Map<string, { push: Push; length: number }>();

  add(key: string, value: string, index: number): void {
    let open = this.#open.get(key);
    if (
      open === undefined ||
      open.push.values.length === MAX_VALUES ||
      open.length + value.length > MAX_LENGTH
    ) {
      open = { push: { key, values: [], indexes: [] }, length: 0 };
      this.#open.set(key, open);
      this.pushes.push(open.push);
    }
    open.push.values.push(value);
    open.push.indexes.push(index);
    open.length += value.length;
  }
}
