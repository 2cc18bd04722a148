import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvases, type Callbacks, type EndMark } from './canvas';
import { Chord } from './chord';
import { Group } from './group';
import type { Expansion, Frozen, IdSource } from './canvas';
import type { EncodedJson } from './json';
import type { CelerySignature, StoredOptions } from './stored-options';

/**
 * Tasks that run one after another, each with the result of the one before it in front of its arguments.
 *
 * As in Celery: a group that is followed by something becomes the header of a chord; chains inside are spliced in; a
 * group of one member is replaced by that member, so the next task gets its result and not a list.
 *
 * @param steps - the steps, or one array of them
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for a step that is no canvas, and for no steps at all
 */
export function chain(...steps: readonly Canvas[] | readonly [readonly Canvas[]]): Canvas {
  const given: unknown = steps.length === 1 && Array.isArray(steps[0]) ? steps[0] : steps;
  const canvas = sequence(splice(requireCanvases(given, 'chain')));
  if (canvas !== undefined) return canvas;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    'A chain must have at least one step, got none',
  );
}

/** Steps without chains among them. */
function splice(steps: readonly Canvas[]): Canvas[] {
  return steps.flatMap((step) => {
    if (step instanceof Chain) return [...step.tasks, step.last];
    const [only, ...others] = step instanceof Group ? step.members : [];
    return only !== undefined && others.length === 0 ? splice([only]) : [step];
  });
}

/** Only the last step of a chain may be a group or a chord: what follows one becomes the body of a chord. */
function sequence(steps: readonly Canvas[]): Canvas | undefined {
  const barrier = steps.find((step) => step instanceof Group || step instanceof Chord);
  const tasks = steps.slice(0, barrier === undefined ? -1 : steps.indexOf(barrier));
  const last = barrier === undefined ? steps.at(-1) : followed(barrier, steps.slice(tasks.length + 1));
  return last === undefined || tasks.length === 0 ? last : new Chain(tasks, last);
}

function followed(barrier: Group | Chord, following: readonly Canvas[]): Canvas {
  if (following.length === 0) return barrier;
  const body = sequence(barrier instanceof Chord ? splice([barrier.body, ...following]) : following);
  if (body === undefined) return barrier;
  return new Chord(barrier instanceof Chord ? barrier.header : barrier.members, body);
}

/** At least two steps, made by {@link chain}: only the last can be a group or a chord. */
export class Chain extends Canvas {
  /** @internal */
  constructor(
    readonly tasks: readonly Canvas[],
    readonly last: Canvas,
  ) {
    super();
  }

  /** @internal */
  get endings(): number {
    return this.last.endings;
  }

  /** @internal */
  withCallbacks({ link, link_error }: Callbacks): Canvas {
    const errbacks = link_error === undefined ? {} : { link_error };
    return new Chain(
      this.tasks.map((task) => task.withCallbacks(errbacks)),
      this.last.withCallbacks(link === undefined ? errbacks : { ...errbacks, link }),
    );
  }

  /** @internal */
  startingWith(options: StoredOptions): Canvas {
    return this.withFirst((first) => first.startingWith(options));
  }

  /** @internal */
  withLeadingArg(arg: EncodedJson): Canvas {
    return this.withFirst((first) => first.withLeadingArg(arg));
  }

  /** @internal */
  toCelery(): CelerySignature {
    return chainSignature([...this.tasks, this.last].map((step) => step.toCelery()));
  }

  /** @internal */
  freeze(end: EndMark, ids: IdSource): Frozen {
    const tasks = this.tasks.map((task) => task.freeze({}, ids).signature);
    const { signature, result } = this.last.freeze(end, ids);
    return { signature: chainSignature([...tasks, signature]), result };
  }

  /** @internal */
  expand(end: EndMark, ids: IdSource): Expansion {
    const [first, ...later] = this.tasks;
    const { signature: last, result } = this.last.freeze(end, ids);
    // Last first: a worker takes the next step from the end.
    const chain = [...later.map((task) => task.freeze({}, ids).signature), last].reverse();
    const sent = first?.expand({}, ids).tasks ?? [];
    return { tasks: sent.map((task) => ({ ...task, options: { ...task.options, chain } })), result };
  }

  private withFirst(change: (first: Canvas) => Canvas): Chain {
    return new Chain(
      this.tasks.map((task, index) => (index === 0 ? change(task) : task)),
      this.last,
    );
  }
}

function chainSignature(tasks: readonly CelerySignature[]): CelerySignature {
  return {
    task: 'celery.chain',
    args: [],
    kwargs: { tasks },
    options: {},
    subtask_type: 'chain',
    immutable: false,
  };
}
