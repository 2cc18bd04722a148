import { randomUUID } from 'node:crypto';
import { encodeTaskOptions } from './encode-options';
import { refuseOversized } from './payload-limit';
import { redactArguments, type RedactSettings } from './redact';
import { checkTaskName, encodeArgs, encodeKwargs } from './task-call';
import type { TaskOptions } from './task-options';

/** A call before it is checked: whatever the user gave. */
export interface UnencodedTask {
  readonly name: string;
  /** An array. @defaultValue `[]` */
  readonly args?: unknown;
  /** A plain object. @defaultValue `{}` */
  readonly kwargs?: unknown;
  readonly options?: TaskOptions | undefined;
}

export interface EncodeSettings extends RedactSettings {
  /** Limit for args, kwargs and options together, in bytes of UTF-8. */
  readonly maxPayloadBytes: number;
  /** What `countdown` and relative `expires` count from. */
  readonly now: Date;
  /** @defaultValue random UUIDs */
  readonly newId?: (() => string) | undefined;
}

/** A task as it is stored: JSON texts, ready for their columns. */
export interface EncodedTask {
  readonly taskId: string;
  readonly taskName: string;
  readonly args: string;
  readonly kwargs: string;
  /** Under Celery's names, times absolute; without the task id. */
  readonly options: string;
  readonly redactedArgs: string | null;
  readonly redactedKwargs: string | null;
  readonly orderingKey: string | null;
  readonly idempotencyKey: string | null;
  /** ISO 8601 with microseconds. */
  readonly holdUntil: string | null;
}

/**
 * Checks a call and encodes it for the outbox. What it accepts, a Celery worker can decode.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for name, args or kwargs of the wrong shape
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_INVALID_OPTION for options
 * @throws ERR_CELERY_OUTBOX_UNENCODABLE for a value that is not JSON
 * @throws ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE above `maxPayloadBytes`
 */
export function encodeTask(call: UnencodedTask, settings: EncodeSettings): EncodedTask {
  const taskName = checkTaskName(call.name);
  const args = encodeArgs(call.args).text;
  const kwargs = encodeKwargs(call.kwargs).text;
  const { json: options, taskId, ...row } = encodeTaskOptions(call.options, settings.now);
  const { newId = randomUUID } = settings;
  return finishTask({ ...row, taskId: taskId ?? newId(), taskName, args, kwargs, options }, settings);
}

/** Adds the redacted columns to a task whose size is within the limit. */
export function finishTask(
  task: Omit<EncodedTask, 'redactedArgs' | 'redactedKwargs'>,
  settings: EncodeSettings,
): EncodedTask {
  refuseOversized(task, settings.maxPayloadBytes);
  return { ...task, ...redactArguments(task, settings) };
}
