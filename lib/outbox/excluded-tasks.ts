import type { DirectTask } from '../broker/direct-sender';
import { CeleryOutboxError } from '../errors';
import type { EncodedTask } from '../message/encode-task';
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
 * A task of `excludeTasks` as celery-node's client can send it: name, args, kwargs, id, queue and the trace of the
 * caller. Anything else is refused rather than dropped.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_UNENCODABLE
 */
export function toDirectTask(task: EncodedTask, { traceHeaders }: CapturedContext): DirectTask {
  const { queue, ...others } = JSON.parse(task.options) as { queue?: string };
  const ours = (['orderingKey', 'idempotencyKey', 'holdUntil'] as const).filter(
    (name) => task[name] !== null,
  );
  refuse(task.taskName, [...Object.keys(others), ...ours]);
  return {
    taskId: task.taskId,
    taskName: task.taskName,
    args: parseExactly(task.args, 'args') as unknown[],
    kwargs: parseExactly(task.kwargs, 'kwargs') as Record<string, unknown>,
    queue,
    headers: traceHeaders === null ? {} : (JSON.parse(traceHeaders) as Record<string, string>),
  };
}

function refuse(taskName: string, options: readonly string[]): void {
  if (options.length === 0) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
    `${taskName} is in excludeTasks and sent through celery-node, which cannot keep: ${options.join(', ')}`,
  );
}

// celery-node writes JSON itself, with JavaScript's numbers.
function parseExactly(text: string, what: string): unknown {
  const value: unknown = JSON.parse(text);
  if (JSON.stringify(value) === text) return value;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_UNENCODABLE',
    `${what} has a number that celery-node, which sends tasks of excludeTasks, would change`,
  );
}
