import { randomUUID } from 'node:crypto';
import { requireCanvas, type Canvas, type CanvasResult, type PlainTask } from './canvas';
import { CANVAS_SCOPE, checkOptions } from './check-options';
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
 * the canvas (`taskId` of a group is the id of the group), all others to the tasks that start it. A chord gives them
 * to its body as well, except those that delay it.
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
  const { task_id: taskId, root_id: rootId, link, link_error, ...start } = message;
  const { tasks, result } = requireCanvas(canvas, 'canvas')
    .withCallbacks({ ...(link && { link }), ...(link_error && { link_error }) })
    .startingWith(start)
    .expand({ taskId }, { newId, rootId });
  return {
    tasks: tasks.map((task) => ({ ...task, options: resolveTimes(task.options, now) })),
    result,
    row,
  };
}
