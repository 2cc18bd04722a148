import { deflateSync } from 'node:zlib';
import { CeleryOutboxError } from '../errors';
import { carriedHeaders } from './message-headers';
import { readOptions, type MessageOptions } from './read-options';
import { findRoute, mergeDestination, routeTo, type RoutingSettings } from './routing';
import { checkTaskName } from './task-call';
import { taskRepr } from './task-repr';
import { MAX_SHORT_STRING_BYTES, textFault } from './text';
import type { CeleryMessage, MessageProperties } from './celery-message';
import type { JsonValue } from './json-text';
import type { StoredTask } from './stored-task';

export interface MessageSettings {
  readonly routing: RoutingSettings;
  readonly nestHeaders: boolean;
  /** Who sends: `gen<pid>@<host>`, as Celery writes it. */
  readonly origin: string;
}

/**
 * Makes the message of a stored task, as Celery's own client would send it at `now`.
 *
 * Args, kwargs, callbacks, chain and chord are spliced in as the text that was stored, and never parsed: what was
 * given to `sendTask` is what the worker decodes, to the last digit.
 *
 * @throws CeleryOutboxError if it would not be a message that a worker can read: one without a proper id or body stops
 * a Python worker for good
 */
export function encodeMessage(task: StoredTask, settings: MessageSettings, now: number): CeleryMessage {
  const options = readOptions(task.options);
  const found = findRoute(settings.routing, task.taskName);
  const { traceHeaders, logContext } = task;
  const carried = carriedHeaders({ custom: options.headers, traceHeaders, logContext }, settings.nestHeaders);
  return {
    taskId: checkTaskId(task.taskId),
    route: routeTo(mergeDestination(options, found), settings.routing),
    headers: { ...protocolHeaders(task, options, settings.origin), ...carried.headers },
    contextHeaders: carried.context,
    properties: properties(task.taskId, options, found.priority ?? 0, now),
    body: encodeBody(task, options),
    etaMs: options.eta === undefined ? null : Date.parse(options.eta),
    chordSizes: options.chord_size ?? {},
  };
}

/** In the order of Celery's `as_task_v2`. */
function protocolHeaders(
  task: StoredTask,
  options: MessageOptions,
  origin: string,
): Record<string, JsonValue> {
  return {
    lang: 'js',
    task: checkTaskName(task.taskName),
    id: task.taskId,
    shadow: options.shadow ?? null,
    eta: options.eta ?? null,
    expires: options.expires ?? null,
    group: options.group_id ?? null,
    group_index: options.group_index ?? null,
    retries: options.retries ?? 0,
    timelimit: [options.time_limit ?? null, options.soft_time_limit ?? null],
    root_id: options.root_id ?? task.taskId,
    parent_id: options.parent_id ?? null,
    argsrepr: options.argsrepr ?? taskRepr(task.redactedArgs ?? task.args),
    kwargsrepr: options.kwargsrepr ?? taskRepr(task.redactedKwargs ?? task.kwargs),
    origin,
    ignore_result: options.ignore_result ?? false,
    ...(options.compression !== undefined && { compression: 'application/x-gzip' }),
  };
}

function properties(
  taskId: string,
  options: MessageOptions,
  priority: number,
  now: number,
): MessageProperties {
  const expiration = options.expires === undefined ? null : timeToLive(options.expires, now);
  return {
    correlationId: options.correlation_id ?? taskId,
    ...(options.reply_to !== undefined && { replyTo: options.reply_to }),
    deliveryMode: options.delivery_mode ?? 2,
    priority: options.priority ?? priority,
    ...(expiration !== null && { expiration }),
    ...(options.message_id !== undefined && { messageId: options.message_id }),
    ...(options.app_id !== undefined && { appId: options.app_id }),
    ...(options.type !== undefined && { type: options.type }),
    ...(options.timestamp !== undefined && { timestamp: options.timestamp }),
  };
}

/** RabbitMQ closes the channel for more than ten years. The header says the same to the worker, without a limit. */
const MAX_TTL_MS = 315_360_000_000;

function timeToLive(expires: string, now: number): string | null {
  const ttl = Math.max(0, Date.parse(expires) - now);
  return ttl > MAX_TTL_MS ? null : String(ttl);
}

function encodeBody({ args, kwargs }: StoredTask, options: MessageOptions): Buffer {
  assertOpens('args', args, '[', 'an array');
  assertOpens('kwargs', kwargs, '{', 'an object');
  const { link = 'null', link_error = 'null', chain = 'null', chord = 'null', compression } = options;
  const embed = `{"callbacks":${link},"errbacks":${link_error},"chain":${chain},"chord":${chord}}`;
  const body = Buffer.from(`[${args},${kwargs},${embed}]`);
  return compression === undefined ? body : deflateSync(body);
}

function assertOpens(name: string, json: string, opening: string, expected: string): void {
  if (json.startsWith(opening) || json.trimStart().startsWith(opening)) return;
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_TASK', `${name} must be ${expected}`);
}

function checkTaskId(taskId: string): string {
  const fault = textFault(taskId, { maxBytes: MAX_SHORT_STRING_BYTES });
  if (fault === null) return taskId;
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_INVALID_TASK', `The task id must be ${fault}`);
}
