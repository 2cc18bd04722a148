import { AsyncResource } from 'node:async_hooks';
import type { Knex } from 'knex';
import { settledWithin } from '../deadline';
import { logEvent, type Logger } from '../telemetry/logger';
import { notify } from './notify';
import { OwnConnection } from './own-connection';
import type { TableNames } from './table-names';

const TIMING = {
  /** From one NOTIFY to the next. */
  intervalMs: 10,
  /** From one that failed to the next. */
  pauseMs: 1_000,
  /** How long PostgreSQL may take to connect, and to answer. */
  timeoutMs: 2_000,
  /** A connection that is not used that long is closed, before a firewall forgets it. */
  idleMs: 30_000,
  closeTimeoutMs: 2_000,
};

export interface NotifierOptions {
  readonly knex: Knex;
  readonly names: TableNames;
  readonly logger: Logger;
  /** For tests. @internal */
  readonly timing?: Partial<typeof TIMING>;
}

/**
 * Wakes the relays after commits: at once after the first, then at most once in 10 ms however many there are.
 *
 * It has a connection of its own, opened when the first is due. So it waits for no connection of the pool and takes
 * none away from a request, in whatever state the pool or the database is. A NOTIFY that fails is not repeated: the
 * relays look by themselves too.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #timing: typeof TIMING;
  // Neither the connection nor a timer may hold the context of the request that happened to come first.
  readonly #outside = new AsyncResource('CeleryOutboxNotifier');
  #connection: OwnConnection | undefined;
  #isDue = false;
  #isFailing = false;
  #notBefore = -Infinity;
  #underWay: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #idle: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
  }

  /** To be called after each commit that stored tasks. Does not throw, and does not wait. */
  stored(): void {
    if (this.#closed !== undefined) return;
    this.#isDue = true;
    this.#outside.runInAsyncScope(() => this.#next());
  }

  /** Sends what is due, waits for it no longer than its deadline, and ends the connection. Never rejects. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  #next(): void {
    const isBusy = this.#underWay !== undefined || this.#timer !== undefined;
    if (!this.#isDue || isBusy || this.#closed !== undefined) return;
    const waitMs = this.#notBefore - performance.now();
    if (waitMs <= 0) this.#underWay = this.#send().finally(() => this.#sent());
    else this.#timer = setTimeout(() => this.#waited(), waitMs).unref();
  }

  #waited(): void {
    this.#timer = undefined;
    this.#next();
  }

  #sent(): void {
    this.#underWay = undefined;
    this.#next();
  }

  async #send(): Promise<void> {
    const { names, logger } = this.#options;
    const { intervalMs, pauseMs, timeoutMs, idleMs } = this.#timing;
    this.#isDue = false;
    this.#notBefore = performance.now() + intervalMs;
    clearTimeout(this.#idle);
    try {
      await notify(await this.#connect(), names, timeoutMs);
      this.#isFailing = false;
      this.#idle = setTimeout(() => void this.#disconnect(), idleMs).unref();
    } catch (error) {
      this.#notBefore = performance.now() + pauseMs;
      this.#connection?.destroy();
      if (!this.#isFailing) logEvent(logger, 'warn', 'celery_outbox_notify_failed', { error });
      this.#isFailing = true;
    }
  }

  async #connect(): Promise<OwnConnection> {
    if (this.#connection?.isOver === false) return this.#connection;
    this.#connection = new OwnConnection(this.#options.knex, { isBackground: true });
    await this.#connection.connect(this.#timing.timeoutMs);
    return this.#connection;
  }

  async #disconnect(): Promise<void> {
    await this.#connection?.close(this.#timing.closeTimeoutMs);
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer);
    await settledWithin(this.#finish(), this.#timing.closeTimeoutMs);
    // What hangs ends with the connection; nothing may follow it.
    this.#isDue = false;
    clearTimeout(this.#idle);
    await this.#disconnect();
  }

  async #finish(): Promise<void> {
    await this.#underWay;
    if (this.#isDue) await this.#send();
  }
}
