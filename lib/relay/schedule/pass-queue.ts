import type { AdvancedSettings } from 'bull';
import type { RedisOptions } from 'ioredis';
import { within } from '../../deadline';
import { assertRepeatable, JOB_NAME } from './assert-repeatable';
import { BullQueue } from './bull-queue';
import type { TickData, TickSummary } from './tick';

export interface PassQueueOptions {
  readonly redis: string | RedisOptions;
  /** Of Bull's queue. */
  readonly name: string;
  readonly data: TickData;
  readonly idleMs: number;
  readonly reassertMs: number;
  readonly tick: () => Promise<TickSummary>;
  readonly onError: (error: unknown) => void;
  /** The schedule is as it should be. */
  readonly onHealthy: () => void;
  /** Bull has given up: only a new queue can help. */
  readonly onBroken: () => void;
}

const ANSWER_MS = 5_000;
const MIN_POLL_MS = 100;
const MAX_POLL_MS = 5_000;
const LOCK_MS = 30_000;

/** The queue of one partition: its schedule, kept right, and the worker that runs its ticks one by one. */
export class PassQueue {
  readonly #options: PassQueueOptions;
  readonly #bull: BullQueue;
  readonly #reassert: NodeJS.Timeout;
  #asserting: Promise<void> | undefined;
  #tick: Promise<unknown> | undefined;
  #isBroken = false;
  #closing: Promise<void> | undefined;

  constructor(options: PassQueueOptions) {
    this.#options = options;
    const { redis, name, idleMs, reassertMs } = options;
    this.#bull = new BullQueue({
      redis,
      name,
      settings: settings(idleMs),
      onReady: () => void this.#assert(),
      onError: (error) => {
        this.#failed(error);
      },
    });
    this.#reassert = setInterval(() => {
      if (this.#isBroken) options.onBroken();
      else void this.#assert();
    }, reassertMs);
    this.#process();
  }

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Begins no more ticks and waits for the one that runs, but not for ever. Never rejects. */
  close(): Promise<void> {
    clearInterval(this.#reassert);
    return (this.#closing ??= this.#bull.close(this.#tick));
  }

  #process(): void {
    // Bull's types know nothing of what a job returns.
    const run = (): Promise<unknown> => this.#runTick();
    this.#bull.queue.process(JOB_NAME, 1, run as () => Promise<void>).catch((error: unknown) => {
      this.#isBroken = true;
      this.#failed(error);
    });
  }

  async #runTick(): Promise<(TickSummary & TickData) | null> {
    // Taken from Redis in the moment of closing. The next one is scheduled already.
    if (this.isClosing) return null;
    const tick = this.#options.tick();
    this.#tick = tick;
    return { ...(await tick), ...this.#options.data };
  }

  #assert(): Promise<void> {
    this.#asserting ??= this.#assertNow().finally(() => {
      this.#asserting = undefined;
    });
    return this.#asserting;
  }

  async #assertNow(): Promise<void> {
    // Without a connection it would wait for one, and is called anyway when there is one.
    if (this.isClosing || !this.#bull.isReady) return;
    const { idleMs, data, onHealthy } = this.#options;
    try {
      await within(assertRepeatable(this.#bull.queue, idleMs, data), ANSWER_MS, () => {
        this.#bull.reopen();
        return new Error(`Redis did not answer within ${ANSWER_MS} ms`);
      });
      onHealthy();
    } catch (error) {
      this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    if (!this.isClosing) this.#options.onError(error);
  }
}

function settings(idleMs: number): AdvancedSettings {
  const pollMs = Math.min(Math.max(idleMs, MIN_POLL_MS), MAX_POLL_MS);
  return {
    // Bull learns of the next job by a message, which may be lost.
    guardInterval: pollMs,
    retryProcessDelay: pollMs,
    // A long tick renews its lock; without it, it would be taken for dead.
    lockDuration: LOCK_MS,
    stalledInterval: LOCK_MS,
    // The tick of a relay that died is not repeated: the next one does its work.
    maxStalledCount: 0,
  };
}
