import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { pid } from 'node:process';
import { settledWithin } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { listPauses, type Pause, pauseTasks, resumeTasks } from '../store/pauses';
import { wakeRelays } from '../store/relay/wake-relays';
import { OutboxEvents } from '../telemetry/events';
import { logEvent } from '../telemetry/logger';
import { Coordination } from './coordination';
import { Engine, type PassOrders } from './engine';
import { Liveness } from './liveness';
import type { PassSummary } from './outcome';
import type { RelaySettings } from './relay-options';
import { Runner } from './runner';
import type { TickSummary } from './schedule/tick';
import { Upkeep } from './upkeep';

const WAKE_TIMEOUT_MS = 1_000;
/** For what was still being sent when the shutdown timeout was over to be settled. */
const LAST_SETTLEMENTS_MS = 2_000;

/** What a relay is doing. */
export interface RelayStatus {
  readonly relayId: string;
  /** `unlocked`: without Redis, by choice or because it is away. */
  readonly mode: 'leading' | 'following' | 'unlocked' | 'stopped';
  /** Partitions that it works on. */
  readonly partitions: readonly number[];
  /** Who leads each partition, as far as this relay knows. */
  readonly leaders: readonly (string | null)[];
  /** Whether it waits for the broker to come back. */
  readonly isBreakerOpen: boolean;
  /** Whether commits wake it up. */
  readonly isListening: boolean;
  /** Milliseconds since the last pass began; null before the first. */
  readonly lastPassAgeMs: number | null;
}

/** Made by {@link createRelay}. */
export class Relay {
  readonly id = `${hostname()}-${String(pid)}-${randomUUID().slice(0, 8)}`;
  /** `sent`, `failed`, `deferred` and `deadLettered`, each when it is written. */
  readonly events: OutboxEvents;
  readonly #settings: RelaySettings;
  readonly #engine: Engine;
  readonly #runner: Runner;
  readonly #coordination: Coordination;
  readonly #upkeep: Upkeep;
  readonly #liveness: Liveness;
  readonly #once = new Set<Promise<unknown>>();
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #helpedAt = -Infinity;

  /** @internal */
  constructor(settings: RelaySettings) {
    const { knex, names, logger, idleMs, databaseTimeoutMs } = settings;
    const database = { knex, timeoutMs: databaseTimeoutMs };
    this.#settings = settings;
    this.events = new OutboxEvents(logger);
    this.#engine = new Engine(settings, database, this.events);
    this.#upkeep = new Upkeep(database, names, settings, logger);
    this.#liveness = new Liveness(settings);
    this.#coordination = new Coordination(settings, {
      relayId: this.id,
      wake: () => {
        this.#runner.wake();
      },
      tick: () => this.#tick(),
    });
    this.#runner = new Runner({
      createPass: () => this.#engine.createPass(this.#orders(() => this.#coordination.partitions, 0)),
      logger,
      idleMs,
      patienceMs: () => this.#coordination.patienceMs,
      onBeat: (stalledMs) => {
        this.#beat(stalledMs);
      },
    });
  }

  /**
   * Begins to send. Resolves when the first election is over and commits are listened for, or failed to be: what is
   * away is waited for in the background.
   *
   * @throws ERR_CELERY_OUTBOX_CLOSED when it was stopped; ERR_CELERY_OUTBOX_INVALID_OPTION for a liveness file that
   * cannot be written
   */
  start(): Promise<void> {
    if (this.#stopping !== undefined) return Promise.reject(closed());
    return (this.#starting ??= this.#start());
  }

  /**
   * Stops claiming at once, finishes what is in flight, gives the rest back, and ends all connections; at the latest
   * after the shutdown timeout and a few seconds. The Knex instance is yours to destroy. Never rejects.
   */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  /**
   * Sends until nothing is eligible, without Bull and without the lock; other relays may work at the same time.
   *
   * @throws ERR_CELERY_OUTBOX_CLOSED, ERR_CELERY_OUTBOX_DATABASE
   */
  async runOnce(): Promise<PassSummary> {
    if (this.#stopping !== undefined) throw closed();
    return this.#runBeside(0);
  }

  /** From now on no relay claims tasks of this name, or any task; also after a restart. */
  async pause(taskName?: string): Promise<void> {
    await pauseTasks(this.#settings.knex, this.#settings.names, taskName ?? null);
  }

  /** @returns false if there was no such pause */
  async resume(taskName?: string): Promise<boolean> {
    const { knex, names } = this.#settings;
    const wasPaused = await resumeTasks(knex, names, taskName ?? null);
    await this.#wakeAll();
    return wasPaused;
  }

  pauses(): Promise<Pause[]> {
    return listPauses(this.#settings.knex, this.#settings.names);
  }

  status(): RelayStatus {
    const { mode, partitions, leaders, isListening } = this.#coordination;
    const { lastPassAgeMs } = this.#runner;
    return {
      relayId: this.id,
      mode,
      partitions,
      leaders,
      isBreakerOpen: this.#engine.breaker.isOpen,
      isListening,
      lastPassAgeMs: Number.isFinite(lastPassAgeMs) ? lastPassAgeMs : null,
    };
  }

  async #start(): Promise<void> {
    this.#liveness.begin();
    this.#helpedAt = performance.now();
    await this.#coordination.start();
    if (this.#stopping !== undefined) return;
    this.#runner.start();
    logEvent(this.#settings.logger, 'info', 'celery_outbox_relay_started', { relay_id: this.id });
  }

  async #stop(): Promise<void> {
    const begunAt = performance.now();
    const { shutdownTimeoutMs, logger } = this.#settings;
    const wasStarted = this.#starting !== undefined;
    const quiet = this.#coordination.quiet();
    await this.#starting?.catch(() => undefined);
    const isDrained = await this.#runner.stop(shutdownTimeoutMs);
    const leftMs = Math.max(0, shutdownTimeoutMs - (performance.now() - begunAt));
    await settledWithin(Promise.allSettled([...this.#once, this.#upkeep.idle()]), leftMs);
    await this.#coordination.resign();
    // The others need not wait for their next tick to take over.
    if (wasStarted) await this.#wakeAll();
    await Promise.all([quiet, this.#engine.close()]);
    await this.#runner.stop(LAST_SETTLEMENTS_MS);
    this.#engine.abandon();
    if (!wasStarted) return;
    logEvent(logger, isDrained ? 'info' : 'warn', 'celery_outbox_relay_shutdown', {
      relay_id: this.id,
      duration_ms: Math.round(performance.now() - begunAt),
      unfinished: !isDrained,
    });
  }

  /** A pass over everything, whoever leads. */
  async #runBeside(minAgeMs: number): Promise<PassSummary> {
    const all = Array.from({ length: this.#settings.partitions }, (_, index) => index);
    const summary = this.#engine.createPass(this.#orders(() => all, minAgeMs)).run();
    this.#once.add(summary);
    try {
      return await summary;
    } finally {
      this.#once.delete(summary);
    }
  }

  /**
   * Takes what nobody has taken for a lock's time to live: a leader can have the lock and yet not reach the database or
   * the broker, or be that of another outbox whose relays were given the same name.
   */
  #helpOut(): void {
    const { lockTtlMs, partitions } = this.#settings;
    const isInCharge = this.#coordination.partitions.length === partitions;
    if (isInCharge || performance.now() - this.#helpedAt < lockTtlMs) return;
    this.#helpedAt = performance.now();
    this.#runBeside(lockTtlMs).catch((error: unknown) => {
      logEvent(this.#settings.logger, 'error', 'celery_outbox_pass_failed', { error });
    });
  }

  #orders(partitions: () => readonly number[], minAgeMs: number): PassOrders {
    return {
      partitions,
      minAgeMs,
      isStopping: () => this.#stopping !== undefined,
      onProgress: () => {
        this.#runner.progressed();
      },
    };
  }

  async #tick(): Promise<TickSummary> {
    const begunAt = performance.now();
    const summary = await this.#runner.tick();
    return { ...summary, durationMs: Math.round(performance.now() - begunAt) };
  }

  #beat(stalledMs: number): void {
    const { isOpen, remainingMs } = this.#engine.breaker;
    if (isOpen) {
      const remaining_ms = Math.round(remainingMs);
      logEvent(this.#settings.logger, 'debug', 'celery_outbox_breaker_open', { remaining_ms });
    }
    if (this.#coordination.partitions.includes(0)) this.#upkeep.beat();
    this.#helpOut();
    this.#liveness.beat(stalledMs);
  }

  // Who does not hear it looks by itself.
  async #wakeAll(): Promise<void> {
    const { knex, names } = this.#settings;
    await wakeRelays({ knex, timeoutMs: WAKE_TIMEOUT_MS }, names).catch(() => undefined);
  }
}

function closed(): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_CLOSED', 'The relay was stopped');
}
