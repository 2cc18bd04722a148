import { CeleryOutboxError } from '../errors';
import { encodeStoredOptions } from './encode-options';
import { finishTask, type EncodedTask, type EncodeSettings } from './encode-task';
import { expandCanvas } from './expand-canvas';
import type { Canvas, CanvasResult } from './canvas';
import type { CanvasOptions } from './task-options';

export interface EncodedCanvas {
  /** The rows to write, in order; none for an empty group. */
  readonly tasks: EncodedTask[];
  readonly result: CanvasResult;
}

/**
 * Checks a canvas and encodes it for the outbox: a row for each message that is sent at once.
 *
 * `orderingKey` and `holdUntil` apply to every row. `idempotencyKey` is only for a canvas of one row: with several, a
 * second call could store a part of it.
 *
 * @throws as encodeTask
 */
export function encodeCanvas(
  canvas: Canvas,
  options: CanvasOptions | undefined,
  settings: EncodeSettings,
): EncodedCanvas {
  const { tasks, result, row } = expandCanvas(canvas, options, settings.now, settings.newId);
  if (row.idempotencyKey !== null && tasks.length !== 1) throw sharedKey(tasks.length);
  const encoded = tasks.map(({ taskId, name, args, kwargs, options: stored }) => {
    const json = encodeStoredOptions(stored, settings.now);
    return finishTask(
      { ...row, taskId, taskName: name, args: args.text, kwargs: kwargs.text, options: json },
      settings,
    );
  });
  return { tasks: encoded, result };
}

function sharedKey(messages: number): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `Option idempotencyKey must be left out for a canvas of ${String(messages)} messages: it is for exactly one`,
  );
}
