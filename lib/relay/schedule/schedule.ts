import type { RedisOptions } from 'ioredis';
import type { Logger } from '../../telemetry/logger';
import { PassQueue } from './pass-queue';
import { ScheduleErrors } from './schedule-errors';
import type { TickSummary } from './tick';

export type { TickSummary } from './tick';

export interface ScheduleOptions {
  /** A URL or ioredis's options. */
  readonly redis: string | RedisOptions;
  /** Of Bull's queue for partition 0; those of the others end in `-1`, `-2`, … */
  readonly name: string;
  /** The time between two ticks of a partition. */
  readonly idleMs: number;
  readonly relayId: string;
  readonly logger: Logger;
  /** Must be idempotent: ticks may come late, be left out, or come twice. */
  readonly tick: (partition: number) => Promise<TickSummary>;
  /** How often the schedule in Redis is put right. @defaultValue 20000 */
  readonly reassertMs?: number;
}

const REASSERT_MS = 20_000;

/**
 * Ticks from Bull, for the partitions that this relay leads. Bull hands each tick to one of those who listen, so only
 * the leader of a partition listens to its queue. While Redis is away there are no ticks; they come back with it.
 */
export class Schedule {
  readonly #options: ScheduleOptions;
  readonly #errors: ScheduleErrors;
  /** Also those that are closing: a partition is opened again only when its last tick is over. */
  readonly #queues = new Map<number, PassQueue>();
  #led: ReadonlySet<number> = new Set();
  #lastTickAt: number | null = null;
  #isStopped = false;

  constructor(options: ScheduleOptions) {
    this.#options = options;
    this.#errors = new ScheduleErrors(options.logger, options.relayId);
  }

  /** performance.now() of when the last tick began. */
  get lastTickAt(): number | null {
    return this.#lastTickAt;
  }

  /** Says whose ticks this relay runs from now on. */
  lead(partitions: readonly number[]): void {
    if (this.#isStopped) return;
    this.#led = new Set(partitions);
    for (const [partition, queue] of this.#queues) {
      if (!this.#led.has(partition)) void this.#close(partition, queue);
    }
    for (const partition of this.#led) this.#open(partition);
  }

  /** Waits for the ticks that run, but no longer than some seconds. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#led = new Set();
    await Promise.all([...this.#queues].map(([partition, queue]) => this.#close(partition, queue)));
  }

  #open(partition: number): void {
    if (this.#queues.has(partition)) return;
    const { redis, name, idleMs, relayId, reassertMs = REASSERT_MS } = this.#options;
    try {
      const queue = new PassQueue({
        redis,
        name: partition === 0 ? name : `${name}-${partition}`,
        data: { relayId, partition },
        idleMs,
        reassertMs,
        tick: () => this.#tick(partition),
        onError: (error) => {
          this.#errors.failed(partition, error);
        },
        onHealthy: () => {
          this.#errors.recovered(partition);
        },
        onBroken: () => void this.#close(partition, queue),
      });
      this.#queues.set(partition, queue);
    } catch (error) {
      this.#errors.failed(partition, error);
    }
  }

  #tick(partition: number): Promise<TickSummary> {
    this.#lastTickAt = performance.now();
    return this.#options.tick(partition);
  }

  async #close(partition: number, queue: PassQueue): Promise<void> {
    const isFirst = !queue.isClosing;
    await queue.close();
    if (!isFirst) return;
    this.#queues.delete(partition);
    if (this.#led.has(partition)) this.#open(partition);
    else this.#errors.recovered(partition);
  }
}
