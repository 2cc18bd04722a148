import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** Captures of what Python's Celery 5.2.6 publishes, and a comparator; `golden/README.md` there explains the format. */
const directory = path.resolve(process.cwd(), '../shared/celery-wire');

export type BrokerName = 'rabbitmq' | 'redis';

/** A call in no particular language, under Celery's names. */
export interface GoldenCall {
  kind: 'task' | 'registered' | 'signature' | 'chain' | 'group' | 'chord' | 'starmap' | 'chunks';
  task: string;
  args: unknown[];
  kwargs: Record<string, unknown>;
  options: Record<string, unknown>;
  immutable?: boolean;
  tasks: GoldenCall[];
  header: GoldenCall[];
  body: GoldenCall;
  header_id?: string;
  it: unknown[][];
  n: number;
}

/** A message as it lay in the broker, as the comparator takes it. */
export interface CapturedMessage {
  routing: { queue?: string; list_key?: string; exchange: string; routing_key: string };
  properties: Record<string, unknown>;
  headers: Record<string, unknown>;
  body_raw: string;
  'content-type'?: string;
  'content-encoding'?: string;
}

export interface Golden {
  now: string;
  config: {
    task_default_queue?: string;
    task_queues?: { name: string; exchange: string; type: 'direct' | 'topic'; routing_key: string }[];
    task_routes?: Record<string, { queue: string; priority: number }>;
    task_queue_max_priority?: number;
    timezone?: string;
  };
  /** What existed before the call. */
  topology: { exchange: string; type: string; queue: string; binding_key: string }[];
  call: GoldenCall;
  error: string | null;
  messages: CapturedMessage[];
  /** In Redis, by key. */
  bindings?: Record<string, string[]>;
  backend_writes: Record<string, { value: string; ttl: number }>;
  volatile: string[];
  clock_dependent: string[];
}

export interface Difference {
  path: string;
  golden: unknown;
  actual: unknown;
  why: string;
}

export function goldenNames(broker: BrokerName, pattern = /^/): string[] {
  return readdirSync(path.join(directory, 'golden', broker))
    .filter((file) => pattern.test(file))
    .map((file) => file.replace('.json', ''));
}

export function readGolden(broker: BrokerName, name: string): Golden {
  return JSON.parse(readFileSync(path.join(directory, 'golden', broker, `${name}.json`), 'utf8')) as Golden;
}

/** How messages differ from a capture in what Celery cares about: not at all, if it is empty. */
export async function compareWithGolden(
  golden: Golden,
  actual: readonly CapturedMessage[],
): Promise<Difference[]> {
  const { href } = pathToFileURL(path.join(directory, 'check/compare.mjs'));
  const { compare } = (await import(href)) as {
    compare: (golden: Golden, actual: readonly CapturedMessage[]) => Difference[];
  };
  return compare(golden, actual);
}
