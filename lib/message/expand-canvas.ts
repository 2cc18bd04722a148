import { randomUUID } from 'node:crypto';
import { requireCanvas, resultOf, type Canvas, type CanvasResult } from './canvas';
import { CANVAS_SCOPE, checkOptions } from './check-options';
import { Sending, type PlainTask } from './draft/sending';
import { splitOptions, type RowOptions } from './encode-options';
import { resolveTimes } from './stored-options';
import type { CanvasOptions } from './task-options';

export interface ExpandedCanvas {
  /** The messages that are sent at once, in order; what follows them is inside their options. */
  readonly tasks: readonly PlainTask[];
  readonly result: CanvasResult;
  readonly row: RowOptions;
}

/**
 * What applying a canvas writes: plain tasks, with ids and the rest of the canvas frozen into their options as
 * Celery 5.2 does it.
 *
 * Of the options, `rootId` goes to every task, `linkError` to every step, `link` and `taskId` to the task that ends
 * the canvas (`taskId` of a group is the id of the group; a task that has an id keeps it), all others to the tasks that
 * start it. A chord gives them to its body as well, and `countdown` to its body alone.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK, ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_INVALID_OPTION
 */
export function expandCanvas(
  canvas: Canvas,
  options: CanvasOptions | undefined,
  now: Date,
  newId: (() => string) | undefined = randomUUID,
): ExpandedCanvas {
  const { message, row } = splitOptions(checkOptions(options, CANVAS_SCOPE));
  const { link, link_error, ...start } = message;
  const sending = new Sending(newId);
  const result = requireCanvas(canvas, 'canvas')
    .withCallbacks({ ...(link && { link }), ...(link_error && { link_error }) })
    .draft()
    .send(start, sending);
  return {
    tasks: sending.tasks.map((task) => ({ ...task, options: resolveTimes(task.options, now) })),
    result: resultOf(result),
    row,
  };
}
