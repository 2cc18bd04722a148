import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createChannel } from './channel';
import { sweepRunDirectories } from './private/run-directory';
import type { Action } from './protocol';
import type { PrivatePlan } from './resolve';
import type { Service } from './service';

const CLOSE_DEADLINE_MS = 60_000;

/**
 * The run's side of the process that owns its private services.
 */
export interface Supervisor {
  /** Starts a service and resolves when it answers. */
  create(plan: PrivatePlan, durable: boolean): Promise<Service>;
  /** Ends all services, removes their data, and resolves when that is done. */
  readonly close: () => Promise<void>;
}

export function startSupervisor(): Supervisor {
  const child = spawnSupervisor();
  const ask = createChannel(child);

  return {
    async create(plan, durable) {
      const { name, origin } = plan;
      const url = await ask({ action: 'create', plan, durable });
      const act = (action: Action) => async (): Promise<void> => {
        await ask({ action, name });
      };
      return { name, origin, url, start: act('start'), stop: act('stop'), kill: act('kill') };
    },
    async close() {
      if (child.connected) child.disconnect();
      await untilExit(child);
      // It was killed, or failed: what it owned has no owner now.
      if (child.exitCode !== 0) await sweepRunDirectories();
    },
  };
}

async function untilExit(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const deadline = new AbortController();
  // This timer keeps the run alive, not the child: a child would count as an open handle for a while after its exit.
  const timer = setTimeout(() => {
    deadline.abort();
  }, CLOSE_DEADLINE_MS);
  try {
    await once(child, 'exit', { signal: deadline.signal });
  } finally {
    clearTimeout(timer);
  }
}

function spawnSupervisor(): ChildProcess {
  const tsx = pathToFileURL(require.resolve('tsx')).href;
  const child = spawn(process.execPath, ['--import', tsx, join(__dirname, 'supervisor.ts')], {
    // Out of reach of what ends the run's process group, such as Ctrl-C.
    detached: true,
    // It holds stderr, so whoever reads the run's output to its end also waits for the cleanup.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.unref();
  return child;
}
