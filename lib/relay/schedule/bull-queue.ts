import Bull, { type AdvancedSettings, type Queue } from 'bull';
import type { RedisOptions } from 'ioredis';
import { settledWithin } from '../../deadline';
import { BullConnection } from './bull-connection';
import type { TickData } from './tick';

export interface BullQueueOptions {
  readonly redis: string | RedisOptions;
  readonly name: string;
  readonly settings: AdvancedSettings;
  /** There is a connection, for the first time or again. */
  readonly onReady: () => void;
  readonly onError: (error: Error) => void;
}

type ClientType = 'client' | 'subscriber' | 'bclient';

/** For the job that runs, and for Redis to write down its end. */
const FINISH_MS = 3_000;
const CLEAN_UP_MS = 100;

/** A queue of Bull that ends no process, and can be closed at any time: with Redis, without it, in the middle of a job. */
export class BullQueue {
  readonly queue: Queue<TickData>;
  readonly #options: BullQueueOptions;
  readonly #connections = new Map<ClientType, BullConnection>();
  #isClosing = false;

  constructor(options: BullQueueOptions) {
    this.#options = options;
    const { redis, name, settings, onError } = options;
    const prefix = (typeof redis === 'object' && redis.keyPrefix) || 'bull';
    // As Bull itself would call it, for its list of workers.
    const workerName = `${prefix}:${Buffer.from(name).toString('base64')}`;
    this.queue = new Bull<TickData>(name, {
      prefix,
      settings,
      createClient: (type) => this.#connect(type, type === 'bclient' ? workerName : ''),
    });
    // Bull forgets the promise of this one: its rejection would end the process.
    this.queue.setWorkerName = () => Promise.resolve();
    this.queue.on('error', onError);
  }

  get isReady(): boolean {
    return this.#connections.get('client')?.redis.status === 'ready';
  }

  /** Connects anew, to a server that is silent. */
  reopen(): void {
    for (const connection of this.#connections.values()) connection.reopen();
  }

  /**
   * Takes no more jobs, and waits some seconds for the one that runs. Never rejects.
   *
   * @param job - what the job that runs waits for
   */
  async close(job: Promise<unknown> | undefined): Promise<void> {
    this.#isClosing = true;
    const deadline = performance.now() + FINISH_MS;
    const closed = this.queue.close();
    // It is waiting for a job. Bull would do the same, half a second later, and connect it again.
    await this.#connections.get('bclient')?.end();
    if (job !== undefined) await settledWithin(job, deadline - performance.now());
    // Without Redis, Bull never comes to an end: https://github.com/OptimalBits/bull/issues/1414
    if (this.isReady) await settledWithin(closed, Math.max(0, deadline - performance.now()));
    await Promise.all([...this.#connections.values()].map((connection) => connection.end()));
    // What waited for Redis has failed now, and that may have set timers.
    await settledWithin(closed, CLEAN_UP_MS);
    clearTimers(this.queue);
  }

  #connect(type: ClientType, name: string): BullConnection['redis'] {
    const connection = new BullConnection(this.#options.redis, name);
    this.#connections.set(type, connection);
    if (type === 'client') connection.redis.on('ready', this.#options.onReady);
    // Bull makes each when it first needs it, which may be after the end.
    if (!this.#isClosing) connection.open();
    return connection.redis;
  }
}

/** What Bull's close() does itself, if it comes that far, but not for a job that goes on. */
function clearTimers(queue: object): void {
  void (queue as { _clearTimers(): Promise<void> })._clearTimers();
}
