import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { chain } from '../../../lib/message/chain';
import { chord } from '../../../lib/message/chord';
import { group } from '../../../lib/message/group';
import { signature, type Signature } from '../../../lib/message/signature';
import type { Canvas } from '../../../lib/message/canvas';
import type { TaskOptions } from '../../../lib/message/task-options';

/** Captures of what Python's Celery 5.2.6 publishes; `README.md` there explains the format. */
const directory = path.resolve(process.cwd(), '../shared/celery-wire/golden/rabbitmq');

export interface GoldenCall {
  kind: 'task' | 'signature' | 'chain' | 'group' | 'chord';
  task: string;
  args: unknown[];
  kwargs: Record<string, unknown>;
  options: Record<string, unknown>;
  immutable?: boolean;
  tasks: GoldenCall[];
  header: GoldenCall[];
  body: GoldenCall;
  header_id?: string;
}

export interface GoldenMessage {
  headers: Record<string, unknown>;
  properties: Record<string, unknown>;
  body: unknown[];
}

export interface Golden {
  now: string;
  call: GoldenCall;
  messages: GoldenMessage[];
  backend_writes: Record<string, { value: string }>;
  volatile: string[];
  clock_dependent: string[];
}

export function goldenNames(pattern: RegExp): string[] {
  return readdirSync(directory)
    .filter((file) => pattern.test(file))
    .map((file) => file.replace('.json', ''));
}

export function readGolden(name: string): Golden {
  return JSON.parse(readFileSync(path.join(directory, `${name}.json`), 'utf8')) as Golden;
}

/** A captured call in our API. */
export function toCanvas(call: GoldenCall): Canvas {
  if (call.kind === 'chain') return chain(call.tasks.map(toCanvas));
  if (call.kind === 'group') return group(call.tasks.map(toCanvas));
  if (call.kind === 'chord') return chord(call.header.map(toCanvas), toCanvas(call.body));
  return toSignature(call);
}

function toSignature({ task, args, kwargs, options, immutable }: GoldenCall): Signature {
  return signature(task, args, kwargs, toOptions(options)).immutable(immutable);
}

/** Captured options in our API: camelCase, signatures instead of calls. */
export function toOptions(options: Record<string, unknown>): TaskOptions {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      name === 'link' || name === 'link_error' ? (value as GoldenCall[]).map(toCanvas) : untyped(value),
    ]),
  );
}

function untyped(value: unknown): unknown {
  return typeof value === 'object' && value !== null && '$datetime' in value ? value.$datetime : value;
}
