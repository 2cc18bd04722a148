import type { CeleryOptions } from '../../lib/celery-options';
import type { Canvas } from '../../lib/message/canvas';
import { chain } from '../../lib/message/chain';
import { chord } from '../../lib/message/chord';
import { encodeCanvas } from '../../lib/message/encode-canvas';
import { encodeTask, type EncodeSettings } from '../../lib/message/encode-task';
import { group } from '../../lib/message/group';
import { chunks, starmap } from '../../lib/message/mapping';
import type { QueueOptions } from '../../lib/message/routing';
import { signature } from '../../lib/message/signature';
import type { StoredTask } from '../../lib/message/stored-task';
import type { TaskOptions } from '../../lib/message/task-options';
import type { Golden, GoldenCall } from './golden';

/** Makes the captured call in our API, at the time and with the ids of the capture. */
export function storeGolden({ call, now }: Golden): StoredTask[] {
  const forced = call.header_id === undefined ? [] : [call.header_id];
  let generated = 0;
  const settings: EncodeSettings = {
    maxPayloadBytes: 1e6,
    now: new Date(now),
    newId: () => forced.shift() ?? `generated-${String(++generated)}`,
  };
  const options = toOptions(call.options);
  const tasks = isTask(call)
    ? [
        encodeTask(
          { name: call.task, args: toValue(call.args), kwargs: toValue(call.kwargs), options },
          settings,
        ),
      ]
    : encodeCanvas(toCanvas(call), options, settings).tasks;
  return tasks.map((task) => ({ ...task, traceHeaders: null, logContext: null }));
}

/** The captured settings of the app under our names. Its time zone is none: instants are the same in all of them. */
export function toCeleryOptions({ config }: Golden): Omit<CeleryOptions, 'broker'> {
  const { task_default_queue: queue, task_routes: routes, task_queue_max_priority: maxPriority } = config;
  const queues: Record<string, QueueOptions> = maxPriority === undefined ? {} : { celery: { maxPriority } };
  for (const { name, exchange, type, routing_key } of config.task_queues ?? []) {
    queues[name] = { exchange, exchangeType: type, routingKey: routing_key };
  }
  return { queues, ...(queue !== undefined && { queue }), ...(routes !== undefined && { routes }) };
}

/** Captured options under our names, with signatures instead of calls. */
export function toOptions(options: Record<string, unknown>): TaskOptions {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      name === 'link' || name === 'link_error' ? (value as GoldenCall[]).map(toCanvas) : toValue(value),
    ]),
  );
}

function isTask({ kind }: GoldenCall): boolean {
  return kind === 'task' || kind === 'registered';
}

function toCanvas(call: GoldenCall): Canvas {
  switch (call.kind) {
    case 'chain':
      return chain(call.tasks.map(toCanvas));
    case 'group':
      return group(call.tasks.map(toCanvas));
    case 'chord':
      return chord(call.header.map(toCanvas), toCanvas(call.body));
    case 'starmap':
      return starmap(signature(call.task), call.it);
    case 'chunks':
      return chunks(signature(call.task), call.it, call.n);
    case 'signature':
      return signature(
        call.task,
        toValue(call.args) as unknown[],
        toValue(call.kwargs) as Record<string, unknown>,
        toOptions(call.options),
      ).immutable(call.immutable);
    default:
      throw new Error(`no canvas: ${call.kind}`);
  }
}

/** What one passes in JavaScript to send the same: strings as kombu 5.2 writes them, BigInt, Buffer. */
const LEAVES: Readonly<Record<string, (text: string) => unknown>> = {
  $datetime: (text) => text.replace('+00:00', 'Z'),
  $date: (text) => `${text}T00:00:00`,
  $time: (text) => text.replace(/\.\d+$/, (fraction) => fraction.padEnd(7, '0')),
  $uuid: (text) => text,
  $decimal: (text) => text,
  $int: BigInt,
  $float: (text) => Number(text.replace('inf', 'Infinity')),
  $bytes: (text) => Buffer.from(text, 'base64'),
};

function toValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(toValue);
  const [[key, text] = ['', ''], ...others] = Object.entries(value);
  if (key.startsWith('$') && others.length === 0) {
    const leaf = LEAVES[key];
    if (leaf === undefined) throw new Error(`unknown leaf: ${key}`);
    return leaf(text as string);
  }
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, toValue(item)]));
}
