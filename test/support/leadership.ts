import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { Leadership, type LeadershipOptions } from '../../lib/relay/leadership/leadership';
import { type LogLine, recordingLogger } from './log';

export interface TestRelay {
  readonly id: string;
  readonly leadership: Leadership;
  readonly lines: LogLine[];
  /** How often it told of a change. */
  readonly changes: number;
}

export type RelayParts = Partial<LeadershipOptions> & Pick<LeadershipOptions, 'redis'>;

/** Relays of one outbox. Whenever one of them tells of a change, no partition may have two leaders. */
export class Relays {
  readonly name = `outbox-${randomUUID()}`;
  readonly all: TestRelay[] = [];
  /** Partitions that were seen with more than one leader. */
  readonly conflicts: string[] = [];
  readonly #parts: RelayParts;

  constructor(parts: RelayParts) {
    this.#parts = parts;
  }

  create(parts: Partial<LeadershipOptions> = {}): TestRelay {
    const { lines, ...logger } = recordingLogger();
    let changes = 0;
    const options = { name: this.name, relayId: randomUUID(), partitions: 1, lockTtlMs: 60_000, logger };
    const onChange = (): void => {
      changes += 1;
      this.check();
    };
    const merged = { ...options, onChange, ...this.#parts, ...parts };
    const relay = {
      id: merged.relayId,
      leadership: new Leadership(merged),
      lines,
      get changes() {
        return changes;
      },
    };
    this.all.push(relay);
    return relay;
  }

  async start(parts: Partial<LeadershipOptions> = {}): Promise<TestRelay> {
    const relay = this.create(parts);
    await relay.leadership.start();
    return relay;
  }

  /** Everybody's next election, one after the other. */
  async elect(): Promise<void> {
    for (const { leadership } of this.all) await leadership.elect();
    this.check();
  }

  /** How many partitions each one leads. */
  shares(): number[] {
    return this.all.map(({ leadership }) => leadership.partitions.length);
  }

  /** Every partition that somebody leads, in order. */
  led(): number[] {
    return this.all.flatMap(({ leadership }) => leadership.partitions).toSorted((a, b) => a - b);
  }

  check(): void {
    const locked = this.all.filter(({ leadership }) => leadership.mode !== 'unlocked');
    const led = locked.flatMap(({ leadership }) => leadership.partitions);
    if (new Set(led).size < led.length) {
      this.conflicts.push(JSON.stringify(locked.map(({ leadership }) => leadership.partitions)));
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.all.map(({ leadership }) => leadership.stop()));
    expect(this.conflicts).to.deep.equal([]);
  }
}

/** The names of a relay's log events, in order. */
export const eventsOf = ({ lines }: TestRelay): string[] =>
  lines.map(({ message }) => message.replace('celery_outbox_', ''));

/** A relay in a process of its own, which says every few milliseconds what it leads. */
export interface RelayProcess {
  readonly child: ChildProcess;
  /** What it led the last time it said something. */
  readonly last: readonly number[];
  /** All that it said since the last call. */
  take(): (readonly number[])[];
  end(): Promise<void>;
}

export type ProcessParts = Omit<LeadershipOptions, 'logger' | 'onChange'>;

export async function forkRelay(parts: ProcessParts): Promise<RelayProcess> {
  const child = fork(join(__dirname, 'leadership-process.ts'), [JSON.stringify(parts)], {
    execArgv: ['--import', 'tsx'],
  });
  const exited = once(child, 'exit');
  let said: (readonly number[])[] = [];
  let last: readonly number[] = [];
  child.on('message', (partitions: readonly number[]) => {
    said.push(partitions);
    last = partitions;
  });
  await once(child, 'message');
  return {
    child,
    get last() {
      return last;
    },
    take() {
      const taken = said;
      said = [];
      return taken;
    },
    async end() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
