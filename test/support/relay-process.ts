import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

const MAIN = join(__dirname, '../../lib/cli/main.ts');

export interface RelayLine {
  readonly message: string;
  readonly level: string;
  readonly [field: string]: unknown;
}

/** `celery-outbox relay` in a process of its own. */
export interface RelayProcess {
  readonly pid: number;
  /** What it has logged. */
  readonly lines: readonly RelayLine[];
  /** What it wrote to standard error. */
  errors(): string;
  signal(signal: NodeJS.Signals): void;
  /** The first line of this event, now or later. */
  logged(event: string): Promise<RelayLine>;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals | null>;
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

/** Starts the command; does not wait for it to be ready. */
export function spawnRelay(flags: Readonly<Record<string, string | number | true>>): RelayProcess {
  const args = Object.entries(flags).map(([name, value]) =>
    value === true ? `--${name}` : `--${name}=${String(value)}`,
  );
  const child: Child = spawn(process.execPath, ['--import', 'tsx', MAIN, 'relay', ...args], {
    env: { PATH: process.env['PATH'] ?? '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: RelayLine[] = [];
  const waiting = new Set<(line: RelayLine) => void>();
  createInterface(child.stdout).on('line', (text) => {
    const line = parse(text);
    lines.push(line);
    for (const tell of waiting) tell(line);
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const exited = once(child, 'close').then(([code, signal]) => (signal ?? code) as number | NodeJS.Signals);
  return {
    pid: child.pid ?? 0,
    lines,
    errors: () => errors,
    signal: (signal) => child.kill(signal),
    exited,
    logged: (event) =>
      new Promise((resolve, reject) => {
        const tell = (line: RelayLine): void => {
          if (line.message !== event) return;
          waiting.delete(tell);
          resolve(line);
        };
        waiting.add(tell);
        lines.forEach(tell);
        void exited.then((code) => {
          reject(new Error(`the relay ended (${String(code)}) before it logged ${event}: ${errors}`));
        });
      }),
  };
}

function parse(text: string): RelayLine {
  try {
    return JSON.parse(text) as RelayLine;
  } catch {
    return { message: text, level: 'none' };
  }
}

/** Relays of a suite, killed after each test if they still run. */
export function useRelayProcesses(): (
  flags: Readonly<Record<string, string | number | true>>,
) => RelayProcess {
  let started: RelayProcess[] = [];
  afterEach(async () => {
    for (const relay of started) {
      relay.signal('SIGCONT');
      relay.signal('SIGKILL');
    }
    await Promise.all(started.map(({ exited }) => exited));
    started = [];
  });
  return (flags) => {
    const relay = spawnRelay(flags);
    started.push(relay);
    return relay;
  };
}
