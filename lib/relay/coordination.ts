import { WakeUpListener } from '../store/wake-up-listener';
import { Leadership } from './leadership/leadership';
import type { RelaySettings } from './relay-options';
import { Schedule, type TickSummary } from './schedule/schedule';

/** Of the ticks that Bull owes a leader, this many may be missing before the relay goes on without it. */
const MISSED_TICKS = 3;
/** A follower that is woken looks whether the leader has left, but not more often than this. */
const ELECT_AGAIN_MS = 200;

export interface CoordinationParts {
  readonly relayId: string;
  /** Something may be there to be sent. */
  readonly wake: () => void;
  /** A pass, for Bull. */
  readonly tick: () => Promise<TickSummary>;
}

/**
 * What tells a relay when to work, and on what: Bull's ticks, the leader lock, and the commits of others. All of it can
 * be away, and then it works on everything, by its own clock: the claims keep relays apart.
 */
export class Coordination {
  readonly #settings: RelaySettings;
  readonly #wake: () => void;
  readonly #all: readonly number[];
  readonly #listener: WakeUpListener | undefined;
  readonly #leadership: Leadership | undefined;
  readonly #schedule: Schedule | undefined;
  #isRunning = false;
  #electedAt = -Infinity;
  #electing: NodeJS.Timeout | undefined;

  constructor(settings: RelaySettings, { relayId, wake, tick }: CoordinationParts) {
    const { knex, names, logger, redis, name, partitions, lockTtlMs, idleMs, notify } = settings;
    this.#settings = settings;
    this.#wake = wake;
    this.#all = Array.from({ length: partitions }, (_, index) => index);
    const onWakeUp = (): void => {
      this.#wokenUp();
    };
    if (notify) this.#listener = new WakeUpListener({ knex, names, logger, onWakeUp });
    if (redis === undefined) return;
    const onChange = (): void => {
      this.#changed();
    };
    this.#leadership = new Leadership({ redis, name, relayId, partitions, lockTtlMs, logger, onChange });
    this.#schedule = new Schedule({ redis, name, idleMs, relayId, logger, tick });
  }

  /** `unlocked`: without Redis, by choice or because it is away. */
  get mode(): 'leading' | 'following' | 'unlocked' | 'stopped' {
    if (!this.#isRunning) return 'stopped';
    return this.#leadership?.mode ?? 'unlocked';
  }

  /** Partitions to work on now. */
  get partitions(): readonly number[] {
    if (!this.#isRunning) return [];
    return this.#leadership?.partitions ?? this.#all;
  }

  /** Who leads each partition, as far as it is known. */
  get leaders(): readonly (string | null)[] {
    return this.#leadership?.leaders ?? [];
  }

  /** Whether commits wake the relay. */
  get isListening(): boolean {
    return this.#listener?.isListening ?? false;
  }

  /** How long to wait for a tick before beginning a pass without one. */
  get patienceMs(): number {
    const { idleMs } = this.#settings;
    return this.mode === 'leading' ? MISSED_TICKS * idleMs : idleMs;
  }

  /** Never rejects: what is away is waited for in the background. */
  async start(): Promise<void> {
    this.#isRunning = true;
    await Promise.all([this.#leadership?.start(), this.#listener?.start()]);
  }

  /** No tick and no wake-up comes any more; the lock is kept. Never rejects. */
  async quiet(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#electing);
    await Promise.all([this.#schedule?.stop(), this.#listener?.stop()]);
  }

  /** Gives the lock up. Never rejects. */
  async resign(): Promise<void> {
    await this.#leadership?.stop();
  }

  #wokenUp(): void {
    if (this.partitions.length > 0) this.#wake();
    if (this.mode !== 'following' || this.#electing !== undefined) return;
    // Late, but not left out: it may be the last that is heard of a leader.
    const waitMs = this.#electedAt + ELECT_AGAIN_MS - performance.now();
    if (waitMs <= 0) this.#elect();
    else this.#electing = setTimeout(() => this.#elect(), waitMs);
  }

  #elect(): void {
    this.#electing = undefined;
    this.#electedAt = performance.now();
    void this.#leadership?.elect();
  }

  #changed(): void {
    if (!this.#isRunning) return;
    // Without the lock Bull is away as well.
    this.#schedule?.lead(this.mode === 'leading' ? this.partitions : []);
    if (this.partitions.length > 0) this.#wake();
  }
}
