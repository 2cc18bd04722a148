/** A call of a canvas in no particular language, under Celery's names. */
export type CanvasCall =
  | {
      readonly kind: 'signature';
      readonly task: string;
      readonly args: readonly unknown[];
      readonly options: CallOptions;
      readonly immutable: boolean;
    }
  | {
      readonly kind: 'chain' | 'group';
      readonly tasks: readonly CanvasCall[];
      readonly errbacks?: CanvasCall[];
    }
  | {
      readonly kind: 'chord';
      readonly header: readonly CanvasCall[];
      readonly body: CanvasCall;
      readonly errbacks?: CanvasCall[];
    };

export type CallOptions = Readonly<Record<string, unknown>>;

export interface AppliedCanvas {
  readonly canvas: CanvasCall;
  readonly apply: CallOptions;
}

const MAX_DEPTH = 4;

/** Canvases of every shape, the same for the same source of numbers. */
export class RandomCanvas {
  #names = 0;

  constructor(private readonly random: () => number) {}

  next(): AppliedCanvas {
    this.#names = 0;
    const canvas = this.#canvas(0);
    // Callbacks of a call replace those of the canvas in Celery, and are added to them here.
    const isFree = canvas.kind === 'chain' && canvas.errbacks === undefined;
    const apply = {
      // Celery drops the id that is given for a group at the end of something else, and we do not.
      ...((canvas.kind === 'group' || !endsInGroup(canvas)) &&
        this.#maybe(0.15, () => ({ task_id: this.#name('given') }))),
      ...this.#maybe(0.15, () => ({ root_id: 'root' })),
      ...this.#maybe(0.15, () => ({ queue: 'called' })),
      // An eta would replace the countdown of a task here, and the countdown wins in Celery.
      ...this.#maybe(0.15, () => ({ countdown: 7 })),
      ...this.#maybe(0.1, () => ({ priority: 4 })),
      ...(isFree && this.#maybe(0.1, () => ({ link_error: [this.#signature(MAX_DEPTH)] }))),
    };
    return { canvas, apply };
  }

  #canvas(depth: number): CanvasCall {
    const kind = this.random();
    if (depth >= MAX_DEPTH || kind < 0.45) return this.#signature(depth);
    if (kind < 0.67) return { kind: 'chain', tasks: this.#several(depth), ...this.#errbacks() };
    if (kind < 0.85) return { kind: 'group', tasks: this.#several(depth) };
    const header = this.random() < 0.1 ? [] : this.#several(depth);
    return { kind: 'chord', header, body: this.#canvas(depth + 1), ...this.#errbacks() };
  }

  #several(depth: number): CanvasCall[] {
    return Array.from({ length: 1 + this.#below(3) }, () => this.#canvas(depth + 1));
  }

  #signature(depth: number): CanvasCall {
    return {
      kind: 'signature',
      task: this.#name('task'),
      args: this.random() < 0.2 ? [this.#names] : [],
      options: {
        ...this.#maybe(0.12, () => ({ task_id: this.#name('given') })),
        ...this.#maybe(0.1, () => ({ queue: 'own' })),
        ...this.#maybe(0.15, () =>
          this.#below(2) === 0 ? { countdown: this.#below(5) } : { eta: this.#instant() },
        ),
        ...this.#maybe(0.08, () => ({ priority: this.#below(9) })),
        ...this.#maybe(0.08, () => ({ link: [this.#canvas(depth + 2)] })),
        ...this.#maybe(0.08, () => ({ link_error: [this.#signature(depth + 2)] })),
      },
      immutable: this.random() < 0.1,
    };
  }

  #instant(): string {
    const instants = [
      '2031-05-06T08:00:00+00:00',
      '2031-05-06T08:00:00.250000',
      '2031-05-06T16:00:00.123456+09:00',
    ];
    return instants[this.#below(3)] ?? '';
  }

  #errbacks(): { errbacks?: CanvasCall[] } {
    return this.#maybe(0.1, () => ({ errbacks: [this.#signature(MAX_DEPTH)] }));
  }

  #maybe<T extends object>(chance: number, make: () => T): Partial<T> {
    return this.random() < chance ? make() : {};
  }

  #below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  #name(kind: string): string {
    this.#names += 1;
    return `${kind}-${String(this.#names)}`;
  }
}

function endsInGroup(call: CanvasCall | undefined): boolean {
  if (call?.kind === 'chain') return endsInGroup(call.tasks.at(-1));
  return call?.kind === 'chord' ? endsInGroup(call.body) : call?.kind === 'group';
}
