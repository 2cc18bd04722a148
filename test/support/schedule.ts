import { randomUUID } from 'node:crypto';
import Bull, { type Queue } from 'bull';
import { expect } from 'chai';
import { Schedule, type ScheduleOptions, type TickSummary } from '../../lib/relay/schedule/schedule';
import type { TickData } from '../../lib/relay/schedule/tick';
import { eventually } from './eventually';
import { type LogLine, recordingLogger } from './log';

export const SUMMARY: TickSummary = {
  claimed: 3,
  published: 2,
  failed: 1,
  deferred: 0,
  deadLettered: 0,
  released: 0,
  durationMs: 1,
};

export interface TestSchedule {
  readonly schedule: Schedule;
  readonly relayId: string;
  /** The partition and the time of every tick. */
  readonly ticks: { partition: number; at: number }[];
  readonly lines: LogLine[];
}

export type ScheduleParts = Partial<ScheduleOptions> & Pick<ScheduleOptions, 'redis'>;

/** Schedules of one outbox, with ticks every 50 ms that are put right every 200 ms. */
export class Schedules {
  readonly name = `outbox-${randomUUID()}`;
  readonly all: TestSchedule[] = [];
  readonly #parts: ScheduleParts;
  readonly #queues: Queue<TickData>[] = [];

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
  }

  create(parts: Partial<ScheduleOptions> = {}): TestSchedule {
    const { lines, ...logger } = recordingLogger();
    const ticks: TestSchedule['ticks'] = [];
    const defaults = { name: this.name, idleMs: 50, reassertMs: 200, relayId: randomUUID(), logger };
    const merged = { tick: () => Promise.resolve(SUMMARY), ...defaults, ...this.#parts, ...parts };
    const schedule = new Schedule({
      ...merged,
      tick: (partition) => {
        ticks.push({ partition, at: performance.now() });
        return merged.tick(partition);
      },
    });
    const created = { schedule, relayId: merged.relayId, ticks, lines };
    this.all.push(created);
    return created;
  }

  /** One that leads partition 0 and has had a tick. */
  async start(parts: Partial<ScheduleOptions> = {}): Promise<TestSchedule> {
    const created = this.create(parts);
    created.schedule.lead([0]);
    await nextTicks(created, 1);
    return created;
  }

  /** Bull's own view of a queue. */
  async inspect(redis: string, name = this.name): Promise<Queue<TickData>> {
    const queue = new Bull<TickData>(name, redis);
    queue.on('error', () => undefined);
    this.#queues.push(queue);
    return queue.isReady();
  }

  async stop(): Promise<void> {
    await Promise.all(this.all.map(({ schedule }) => schedule.stop()));
    await Promise.all(this.#queues.splice(0).map((queue) => queue.close()));
  }
}

/** Waits for so many more ticks. */
export async function nextTicks({ ticks }: TestSchedule, count: number, timeoutMs = 5_000): Promise<void> {
  const before = ticks.length;
  await eventually(() => {
    expect(ticks.length - before).to.be.at.least(count);
  }, timeoutMs);
}

/** The keys of the repeatable jobs in a queue. */
export async function repeatablesIn(queue: Queue): Promise<string[]> {
  return (await queue.getRepeatableJobs()).map(({ key }) => key);
}
