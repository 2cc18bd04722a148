import { unexpected } from './unexpected';
import type { EncodedJson } from './json';
import type { CelerySignature, StoredOptions } from './stored-options';

/**
 * Something that Celery can run: a signature, a chain, a group or a chord.
 *
 * A value: every method returns a new one and leaves its receiver as it was (Celery's own change it).
 */
export abstract class Canvas {
  /** Adds a task that is run with the result: of the last step of a chain, of the body of a chord. */
  link(callback: Canvas): Canvas {
    return this.withCallbacks({ link: [requireCanvas(callback, 'callback').toCelery()] });
  }

  /** Adds a task that is run on failure: of any step of a chain, of any member of a group, of the body of a chord. */
  onError(errback: Canvas): Canvas {
    return this.withCallbacks({ link_error: [requireCanvas(errback, 'errback').toCelery()] });
  }

  /** Celery's own dict for it, without ids. @internal */
  abstract toCelery(): CelerySignature;

  /** @internal */
  abstract withCallbacks(callbacks: Callbacks): Canvas;

  /** Overrides the options of those tasks that are sent when the canvas is. @internal */
  abstract startingWith(options: StoredOptions): Canvas;

  /** Gives the tasks that are sent first one more argument in front, as a worker does with a result. @internal */
  abstract withLeadingArg(arg: EncodedJson): Canvas;

  /** How many tasks end it: what it counts in the header of a chord. @internal */
  abstract readonly endings: number;

  /** As {@link Canvas.toCelery}, with ids: what travels inside another task's message. @internal */
  abstract freeze(end: EndMark, ids: IdSource): Frozen;

  /** The messages that are sent at once when it is applied, with ids. @internal */
  abstract expand(end: EndMark, ids: IdSource): Expansion;
}

export type Callbacks = Pick<StoredOptions, 'link' | 'link_error'>;

/** What belongs to the task that ends a canvas: its id, and its place in the group or chord around it. */
export interface EndMark {
  taskId?: string | undefined;
  groupId?: string | undefined;
  groupIndex?: number | undefined;
  chord?: EncodedJson | undefined;
}

export interface IdSource {
  readonly newId: () => string;
  /** Root of every task of the canvas; without it each message is its own root. */
  readonly rootId: string | undefined;
}

/** Where the results of a canvas will be. `groupId` is null unless it ends in a group. */
export interface CanvasResult {
  readonly groupId: string | null;
  readonly taskIds: readonly string[];
}

export interface Frozen {
  readonly signature: CelerySignature;
  readonly result: CanvasResult;
}

/** One message: a task without any structure around it. */
export interface PlainTask {
  readonly taskId: string;
  readonly name: string;
  readonly args: EncodedJson;
  readonly kwargs: EncodedJson;
  readonly options: StoredOptions;
}

export interface Expansion {
  readonly tasks: readonly PlainTask[];
  readonly result: CanvasResult;
}

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK */
export function requireCanvas(value: unknown, what: string): Canvas {
  if (value instanceof Canvas) return value;
  throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', what, 'a signature, chain, group or chord', value);
}

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK */
export function requireCanvases(values: unknown, what: string): Canvas[] {
  if (!Array.isArray(values)) {
    throw unexpected('ERR_CELERY_OUTBOX_INVALID_TASK', what, 'an array of signatures', values);
  }
  return values.map((value, index) => requireCanvas(value, `${what}[${String(index)}]`));
}
