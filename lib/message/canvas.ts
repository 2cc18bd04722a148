import type { Draft, DraftResult } from './draft/draft';
import type { CelerySignature, StoredOptions } from './stored-options';
import { unexpected } from './unexpected';

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
  toCelery(): CelerySignature {
    return this.draft().toCelery();
  }

  /** @internal */
  abstract withCallbacks(callbacks: Callbacks): Canvas;

  /** A copy to be changed and sent. @internal */
  abstract draft(): Draft;

  /** How many tasks end it: what it counts in the header of a chord. @internal */
  abstract readonly endings: number;
}

export type Callbacks = Pick<StoredOptions, 'link' | 'link_error'>;

/** Where the results of a canvas will be. `groupId` is null unless it ends in a group. */
export interface CanvasResult {
  readonly groupId: string | null;
  readonly taskIds: readonly string[];
}

export function resultOf(result: DraftResult): CanvasResult {
  if ('taskId' in result) return { groupId: null, taskIds: [result.taskId] };
  const { groupId, members } = result;
  return { groupId, taskIds: members.flatMap((member) => resultOf(member).taskIds) };
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
