import { CeleryOutboxError } from '../errors';
import type { EncodedTask } from '../message/encode-task';
import type { StoredTask } from '../message/stored-task';
import type { OutboxSettings } from '../options';
import type { CapturedContext } from './capture-context';

export function isExcluded({ excludeTasks }: OutboxSettings, taskName: string): boolean {
  return excludeTasks.some((rule) =>
    typeof rule === 'string' ? rule === taskName : taskName.search(rule) >= 0,
  );
}

/** @throws ERR_CELERY_OUTBOX_INVALID_TASK a canvas is stored as one unit, or not at all. */
export function assertNoneExcluded(settings: OutboxSettings, tasks: readonly EncodedTask[]): void {
  const excluded = tasks.find((task) => isExcluded(settings, task.taskName));
  if (excluded === undefined) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    `${excluded.taskName} is in excludeTasks, so it cannot be part of a canvas, which is stored as one unit`,
  );
}

/**
 * A task of `excludeTasks`, as it would be stored. Options that are about its row are refused rather than dropped.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION
 */
export function toDirectTask(task: EncodedTask, context: CapturedContext): StoredTask {
  const kept = (['orderingKey', 'idempotencyKey', 'holdUntil'] as const).filter(
    (name) => task[name] !== null,
  );
  if (kept.length === 0) return { ...task, ...context };
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
    `${task.taskName} is in excludeTasks and never stored, so these cannot be kept: ${kept.join(', ')}`,
  );
}
