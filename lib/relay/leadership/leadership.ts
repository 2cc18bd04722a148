import type { RedisOptions } from 'ioredis';
import { type LogEvent, logEvent, type Logger } from '../../telemetry/logger';
import { type Election, PartitionLocks } from './partition-locks';
import { Tenure } from './tenure';

export interface LeadershipOptions {
  /** A URL or ioredis's options. */
  readonly redis: string | RedisOptions;
  /** What all keys begin with. */
  readonly name: string;
  /** Of this process alone. */
  readonly relayId: string;
  readonly partitions: number;
  /** How long a leader that died is waited for. */
  readonly lockTtlMs: number;
  readonly logger: Logger;
  /** Told when the partitions or the mode changed. Must not throw. */
  readonly onChange: () => void;
}

export type LeadershipMode = 'leading' | 'following' | 'unlocked' | 'stopped';

/** How soon Redis is tried again when an election failed. */
const RETRY_MS = 1_000;

/**
 * Which partitions of the outbox this relay works on. While Redis answers, each partition has one leader; when it has
 * been away for a TTL, every relay works on all of them. It saves work and nothing else: what keeps a task from being
 * sent twice is the claim in the database.
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #locks: PartitionLocks;
  readonly #tenure = new Tenure();
  readonly #all: readonly number[];
  #state: 'new' | 'locked' | 'unlocked' | 'stopped' = 'new';
  #leaders: readonly (string | null)[];
  #election: Promise<void> | undefined;
  #next: NodeJS.Timeout | undefined;
  #unlocking: NodeJS.Timeout | undefined;
  #stopping: Promise<void> | undefined;
  #told: string;

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#locks = new PartitionLocks(options);
    this.#all = Array.from({ length: options.partitions }, (_, partition) => partition);
    this.#leaders = this.#all.map(() => null);
    this.#told = this.#standing();
  }

  get mode(): LeadershipMode {
    if (this.#state === 'unlocked') return 'unlocked';
    if (this.#state !== 'locked') return 'stopped';
    return this.partitions.length > 0 ? 'leading' : 'following';
  }

  /** Those this relay may work on now. */
  get partitions(): readonly number[] {
    if (this.#state === 'unlocked') return this.#all;
    return this.#state === 'locked' ? this.#tenure.partitions : [];
  }

  /** The relay that leads each partition, as last seen. */
  get leaders(): readonly (string | null)[] {
    return this.#leaders;
  }

  /** Holds the first election, and from then on one in each third of the TTL. Never rejects. */
  async start(): Promise<void> {
    if (this.#state !== 'new') return;
    this.#state = 'locked';
    await this.elect();
  }

  /** Holds an election now, or waits for the one under way. Never rejects. */
  elect(): Promise<void> {
    if (this.#state === 'new' || this.#state === 'stopped') return Promise.resolve();
    this.#election ??= this.#elect().finally(() => {
      this.#election = undefined;
    });
    return this.#election;
  }

  /** Lets other relays have the partitions at once. Ends within seconds, also when Redis is away. Never rejects. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #elect(): Promise<void> {
    const beganAt = performance.now();
    const thirdMs = this.#options.lockTtlMs / 3;
    clearTimeout(this.#next);
    let nextAt = beganAt + thirdMs;
    try {
      const election = await this.#locks.elect();
      this.#succeeded(election, beganAt);
      if (election.excess.length > 0) await this.#locks.release(election.excess);
    } catch (error) {
      this.#failed(error);
      nextAt = performance.now() + Math.min(thirdMs, RETRY_MS);
    }
    if (this.#state === 'stopped') return;
    this.#next = setTimeout(() => void this.elect(), Math.max(0, nextAt - performance.now()));
  }

  #succeeded({ own, leaders }: Election, beganAt: number): void {
    if (this.#state === 'stopped') return;
    clearTimeout(this.#unlocking);
    this.#unlocking = undefined;
    this.#leaders = leaders;
    if (this.#state === 'unlocked') this.#log('info', 'celery_outbox_redis_available');
    this.#state = 'locked';
    // From when it began: Redis counts from a later moment.
    this.#lead(own, beganAt + this.#options.lockTtlMs);
  }

  #failed(error: unknown): void {
    if (this.#state !== 'locked' || this.#unlocking !== undefined) return;
    const { endsAt } = this.#tenure;
    if (endsAt === undefined) {
      this.#unlock(error);
      return;
    }
    // A leader goes on without a gap. After a freeze, when its time is over already, one failure is not an outage yet.
    const now = performance.now();
    const unlockAt = now < endsAt ? endsAt : now + this.#options.lockTtlMs;
    this.#unlocking = setTimeout(() => {
      this.#unlock(error);
    }, unlockAt - now);
  }

  #unlock(error: unknown): void {
    this.#unlocking = undefined;
    this.#state = 'unlocked';
    this.#log('warn', 'celery_outbox_redis_unavailable', { error });
    this.#tell();
  }

  async #stop(): Promise<void> {
    const wasStarted = this.#state !== 'new';
    clearTimeout(this.#next);
    clearTimeout(this.#unlocking);
    this.#state = 'stopped';
    this.#lead([], performance.now());
    // It may be taking locks right now.
    await this.#election;
    // Those that Redis does not free now end with their TTL.
    if (wasStarted) await this.#locks.leave().catch(() => undefined);
    await this.#locks.close();
  }

  #lead(own: readonly number[], endsAt: number): void {
    const { acquired, lost } = this.#tenure.begin(own, endsAt);
    if (lost.length > 0) this.#log('info', 'celery_outbox_leader_lost', { partitions: lost });
    if (acquired.length > 0) this.#log('info', 'celery_outbox_leader_acquired', { partitions: acquired });
    this.#tell();
  }

  #tell(): void {
    const standing = this.#standing();
    if (standing === this.#told) return;
    this.#told = standing;
    this.#options.onChange();
  }

  #standing(): string {
    return `${this.mode} ${this.partitions.join()}`;
  }

  #log(level: 'info' | 'warn', event: LogEvent, fields: object = {}): void {
    logEvent(this.#options.logger, level, event, { ...fields, relay_id: this.#options.relayId });
  }
}
