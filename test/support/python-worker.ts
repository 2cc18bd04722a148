import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { celeryPython } from '../../services/celery';

const PROJECT = join(__dirname, '../interop/worker');
const START_DEADLINE_MS = 30_000;
// A solo worker on RabbitMQ looks up from its socket only when a message comes.
const STOP_GRACE_MS = 2_000;
const LOG_TAIL_CHARACTERS = 4_000;

/** A queue that a worker consumes from, declared by it. The tasks that the worker itself sends go to the first. */
export interface WorkerQueue {
  readonly name: string;
  /** @defaultValue a direct exchange of the queue's name */
  readonly exchange?: string;
  readonly exchangeType?: 'direct' | 'topic';
  readonly routingKey?: string;
  readonly maxPriority?: number;
}

export interface PythonWorkerOptions {
  readonly broker: string;
  /** Redis. */
  readonly backend: string;
  readonly queues: readonly WorkerQueue[];
  /** `solo` runs one task after another, in the order received; only `prefork` knows time limits. */
  readonly pool: 'prefork' | 'solo';
  /** Processes of the pool. @defaultValue 1 */
  readonly concurrency?: number;
}

/** A Celery worker of Python, with the tasks of `test/interop/worker`. It ends with this process, however that ends. */
export interface PythonWorker {
  readonly pid: number;
  /** The end of what it logged. */
  log(): string;
  /** Ends it with the processes of its pool; resolves when none is left. */
  stop(): Promise<void>;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** Starts a worker and resolves when it consumes. */
export async function startPythonWorker(options: PythonWorkerOptions): Promise<PythonWorker> {
  const child = spawnWorker(await celeryPython(), options);
  // The pool holds the streams, too: they are closed when its last process is gone.
  const closed = once(child, 'close');
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-LOG_TAIL_CHARACTERS);
  });
  const stop = (): Promise<void> => end(child, closed);
  if (!(await becomesReady(child, closed))) {
    await stop();
    throw new Error(`The Python worker did not start. The end of its log:\n${text}`);
  }
  return { pid: child.pid ?? 0, log: () => text, stop };
}

function spawnWorker(python: string, options: PythonWorkerOptions): Child {
  const { broker, backend, queues, pool, concurrency = 1 } = options;
  const flags = ['--loglevel=INFO', `--pool=${pool}`, `--concurrency=${String(concurrency)}`];
  // What workers tell each other; there is only one.
  const alone = ['--without-gossip', '--without-mingle', '--without-heartbeat'];
  return spawn(python, ['-m', 'celery', '--quiet', '--app=app', 'worker', ...flags, ...alone], {
    cwd: PROJECT,
    env: {
      ...process.env,
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: PROJECT,
      C_FORCE_ROOT: '1',
      INTEROP_BROKER: broker,
      INTEROP_BACKEND: backend,
      INTEROP_QUEUES: JSON.stringify(queues),
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

/** Whether it says so before it ends, or is ended for being late. */
async function becomesReady(child: Child, closed: Promise<unknown>): Promise<boolean> {
  const ready = new Promise<true>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      if (chunk.includes('ready')) resolve(true);
    });
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), START_DEADLINE_MS);
  try {
    return await Promise.race([ready, closed.then(() => false)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets it finish what it runs; after the grace it is killed, and the kernel kills its pool. */
async function end(child: Child, closed: Promise<unknown>): Promise<void> {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  try {
    await closed;
  } finally {
    clearTimeout(timer);
  }
}
