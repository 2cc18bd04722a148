import { CeleryOutboxError } from '../errors';
import type { EncodedTask } from '../message/encode-task';
import { encodeJson } from '../message/json';
import type { OutboxSettings } from '../options';
import { captureContext } from './capture-context';
import type { OutboxHome } from './home';

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
 * Hands a task of `excludeTasks` to the broker now. celery-node keeps the name, args, kwargs, id and queue;
 * anything else is refused rather than dropped.
 *
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_UNENCODABLE, ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED
 */
export async function sendDirectly({ settings, direct }: OutboxHome, task: EncodedTask): Promise<void> {
  const { queue, ...others } = JSON.parse(task.options) as { queue?: string };
  refuse(task.taskName, Object.keys(others));
  refuse(
    task.taskName,
    (['orderingKey', 'idempotencyKey', 'holdUntil'] as const).filter((name) => task[name] !== null),
  );
  const { traceHeaders } = captureContext(settings);
  await direct?.send({
    taskId: task.taskId,
    taskName: task.taskName,
    args: parseExactly<unknown[]>(task.args, 'args'),
    kwargs: parseExactly<Record<string, unknown>>(task.kwargs, 'kwargs'),
    queue,
    headers: traceHeaders === null ? {} : (JSON.parse(traceHeaders) as Record<string, string>),
  });
}

function refuse(taskName: string, options: readonly string[]): void {
  if (options.length === 0) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
    `${taskName} is in excludeTasks and sent through celery-node, which cannot keep: ${options.join(', ')}`,
  );
}

// celery-node writes JSON itself, with JavaScript's numbers.
function parseExactly<T>(text: string, what: string): T {
  const value = JSON.parse(text) as T;
  if (encodeJson(value, what) === text) return value;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_UNENCODABLE',
    `${what} has a number that celery-node, which sends tasks of excludeTasks, would round`,
  );
}
