import { checkOptions, TASK_SCOPE } from './check-options';
import { encodeJson } from './json';
import { resolveTimes, type CheckedOptions, type StoredOptions } from './stored-options';
import type { TaskOptions } from './task-options';

/** What is known about a row besides the task itself. Instants have microseconds. */
export interface RowOptions {
  readonly orderingKey: string | null;
  readonly idempotencyKey: string | null;
  readonly holdUntil: string | null;
}

export interface EncodedOptions extends RowOptions {
  /** JSON under Celery's names, only what was given, times absolute; the task id is a column of its own. */
  readonly json: string;
  readonly taskId: string | undefined;
}

/**
 * Checks the options of a task and encodes them as they are stored.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_INVALID_OPTION, ERR_CELERY_OUTBOX_UNENCODABLE
 */
export function encodeTaskOptions(options: TaskOptions | undefined, now: Date): EncodedOptions {
  const { message, row } = splitOptions(checkOptions(options, TASK_SCOPE));
  const { task_id: taskId, ...stored } = message;
  return { ...row, taskId, json: encodeStoredOptions(stored, now) };
}

/** Separates what goes into the message from what goes into columns. */
export function splitOptions(checked: CheckedOptions): { message: StoredOptions; row: RowOptions } {
  const { ordering_key, idempotency_key, hold_until, ...message } = checked;
  const row = {
    orderingKey: ordering_key ?? null,
    idempotencyKey: idempotency_key ?? null,
    holdUntil: hold_until ?? null,
  };
  return { message, row };
}

export function encodeStoredOptions(stored: StoredOptions, now: Date): string {
  return encodeJson(resolveTimes(stored, now), 'options');
}
