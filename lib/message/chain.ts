import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvases, type Callbacks } from './canvas';
import { Chord } from './chord';
import { ChainDraft } from './draft/chain-draft';
import { Group } from './group';
import { concatenated } from './stored-options';

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
  const [first, ...later] = requireCanvases(given, 'chain');
  if (first !== undefined) return later.reduce(followed, begun(first));
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    'A chain must have at least one step, got none',
  );
}

/** One step or more, made by {@link chain}. */
export class Chain extends Canvas {
  /** @internal */
  constructor(
    readonly steps: readonly Canvas[],
    private readonly callbacks: Callbacks = {},
  ) {
    super();
  }

  /** @internal */
  get endings(): number {
    return this.steps.map((step) => step.endings).findLast((count) => count > 0) ?? 0;
  }

  /** @internal */
  withCallbacks({ link, link_error }: Callbacks): Canvas {
    const last = this.steps.at(-1);
    // Celery leaves them to the chord itself, which cannot be sent with them.
    const isPassedOn = link !== undefined && (last instanceof Chord || last instanceof Group);
    const steps = isPassedOn ? this.withLast(last.withCallbacks({ link })) : this.steps;
    return new Chain(steps, {
      ...concatenated('link', this.callbacks, isPassedOn || link === undefined ? {} : { link }),
      ...concatenated('link_error', this.callbacks, link_error === undefined ? {} : { link_error }),
    });
  }

  /** With another last step. @internal */
  endingWith(last: Canvas): Chain {
    return new Chain(this.withLast(last), this.callbacks);
  }

  /** Its steps, with its callbacks, for another chain. @internal */
  unchained(): Canvas[] {
    const { link, link_error } = this.callbacks;
    const steps = link_error ? this.steps.map((step) => step.withCallbacks({ link_error })) : this.steps;
    return steps.map((step, at) => (link && at === steps.length - 1 ? step.withCallbacks({ link }) : step));
  }

  /** @internal */
  draft(): ChainDraft {
    return new ChainDraft(
      this.steps.map((step) => step.draft()),
      { ...this.callbacks },
    );
  }

  private withLast(last: Canvas): Canvas[] {
    return [...this.steps.slice(0, -1), last];
  }
}

function begun(first: Canvas): Canvas {
  if (first instanceof Group) return unrolled(first);
  return new Chain(stepsOf(first));
}

/** What Celery makes of `left | right`. */
function followed(left: Canvas, right: Canvas): Canvas {
  if (left instanceof Group) return new Chord(left.members, right);
  const isTask = !(right instanceof Group || right instanceof Chain);
  if (left instanceof Chord && isTask) return new Chord(left.header, followed(left.body, right));
  if (left instanceof Chain && isTask) {
    const last = left.steps.at(-1);
    if (last instanceof Group || last instanceof Chord) return left.endingWith(followed(last, right));
  }
  return new Chain([...stepsOf(left), ...stepsOf(right)]);
}

function stepsOf(canvas: Canvas): Canvas[] {
  if (canvas instanceof Chain) return canvas.unchained();
  return [canvas instanceof Group ? unrolled(canvas) : canvas];
}

function unrolled(group: Group): Canvas {
  const [only, ...others] = group.members;
  return only !== undefined && others.length === 0 ? only : group;
}
