import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const START_DEADLINE_MS = 20_000;
const STOP_GRACE_MS = 2_000;

/** celery-node's own worker, in a process of its own: it has no way to stop, and waits up to five seconds in Redis. */
export interface CeleryNodeWorker {
  stop(): Promise<void>;
}

/** Starts a worker with the tasks of `celery-node-process.ts` and resolves when it is connected. */
export async function startCeleryNodeWorker(
  broker: string,
  backend: string,
  queue: string,
): Promise<CeleryNodeWorker> {
  const child = spawnWorker([broker, backend, queue]);
  const exited = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), START_DEADLINE_MS);
  try {
    const isReady = await Promise.race([once(child, 'message').then(() => true), exited.then(() => false)]);
    if (!isReady) throw new Error('The worker of celery-node did not start.');
  } finally {
    clearTimeout(timer);
  }
  return { stop: () => end(child, exited) };
}

function spawnWorker(args: readonly string[]): ChildProcess {
  const tsx = pathToFileURL(require.resolve('tsx')).href;
  const script = join(__dirname, 'celery-node-process.ts');
  return spawn(process.execPath, ['--import', tsx, script, ...args], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
}

async function end(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  if (child.connected) child.disconnect();
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
  try {
    await exited;
  } finally {
    clearTimeout(timer);
  }
}
