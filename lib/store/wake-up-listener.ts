import type { Knex } from 'knex';
import { logEvent, type Logger } from '../telemetry/logger';
import { listen, ping, wakeUpChannel } from './notify';
import { OwnConnection } from './own-connection';
import type { TableNames } from './table-names';

const TIMING = {
  /** From a loss to the first attempt to listen again; after each that fails, twice as long. */
  firstRetryMs: 1_000,
  maxRetryMs: 30_000,
  /** Nothing may come for hours: only an answer tells silence from a connection that is dead. */
  heartbeatMs: 30_000,
  /** How long it may take until we listen, and PostgreSQL to answer a heartbeat. */
  timeoutMs: 5_000,
  closeTimeoutMs: 1_000,
};

export interface WakeUpListenerOptions {
  readonly knex: Knex;
  readonly names: TableNames;
  readonly logger: Logger;
  /** There may be something to send. Called for any number of notifications at once. */
  readonly onWakeUp: () => unknown;
  /** For tests. @internal */
  readonly timing?: Partial<typeof TIMING>;
}

/**
 * Hears the NOTIFY of writers on a connection of its own, and goes on doing so: whatever breaks, it listens again.
 *
 * What is sent while nobody listens is lost, so `onWakeUp` is also called each time that listening begins. Behind a
 * pooler that shares connections between transactions nothing is ever heard: polling has to be enough there.
 */
export class WakeUpListener {
  readonly #options: WakeUpListenerOptions;
  readonly #timing: typeof TIMING;
  #connection: OwnConnection | undefined;
  #isListening = false;
  #isOutage = false;
  #isWaking = false;
  #isStopped = false;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #started: Promise<void> | undefined;

  constructor(options: WakeUpListenerOptions) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
  }

  get isListening(): boolean {
    return this.#isListening;
  }

  /** Resolves after the first attempt, which goes on in the background if it fails. Never rejects. */
  start(): Promise<void> {
    return (this.#started ??= this.#attempt());
  }

  /** For good. `onWakeUp` is not called any more. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isListening = false;
    clearTimeout(this.#timer);
    await this.#connection?.close(this.#timing.closeTimeoutMs);
    await this.#started;
  }

  async #attempt(): Promise<void> {
    if (this.#isStopped) return;
    const { knex, names, logger } = this.#options;
    const { timeoutMs } = this.#timing;
    const deadline = performance.now() + timeoutMs;
    const connection = new OwnConnection(knex, {
      onLost: (error) => this.#lost(connection, error),
      onNotification: () => this.#wakeUp(),
    });
    this.#connection = connection;
    try {
      await connection.connect(timeoutMs);
      await listen(connection, names, Math.ceil(deadline - performance.now()));
    } catch (error) {
      this.#lost(connection, error);
      return;
    }
    if (connection.isOver) return;
    this.#isListening = true;
    this.#isOutage = false;
    this.#failures = 0;
    logEvent(logger, 'info', 'celery_outbox_listening', { channel: wakeUpChannel(names) });
    this.#wakeUp();
    this.#after(this.#timing.heartbeatMs, () => this.#heartbeat(connection));
  }

  async #heartbeat(connection: OwnConnection): Promise<void> {
    try {
      await ping(connection, this.#timing.timeoutMs);
      this.#after(this.#timing.heartbeatMs, () => this.#heartbeat(connection));
    } catch (error) {
      this.#lost(connection, error);
    }
  }

  // A connection that breaks may be reported more than once: by itself, and by the statement that waits for it.
  #lost(connection: OwnConnection, error: unknown): void {
    connection.destroy();
    if (this.#isStopped || this.#connection !== connection) return;
    this.#connection = undefined;
    this.#isListening = false;
    const { logger, names } = this.#options;
    if (!this.#isOutage) {
      logEvent(logger, 'warn', 'celery_outbox_listen_lost', { channel: wakeUpChannel(names), error });
    }
    this.#isOutage = true;
    const retryMs = Math.min(this.#timing.maxRetryMs, this.#timing.firstRetryMs * 2 ** this.#failures);
    this.#failures += 1;
    this.#after(retryMs, () => this.#attempt());
  }

  #after(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.#timer);
    if (!this.#isStopped) this.#timer = setTimeout(() => void work(), ms);
  }

  #wakeUp(): void {
    if (this.#isWaking) return;
    this.#isWaking = true;
    setImmediate(() => {
      this.#isWaking = false;
      if (!this.#isStopped) this.#tell();
    });
  }

  #tell(): void {
    const report = (error: unknown): void => {
      logEvent(this.#options.logger, 'error', 'celery_outbox_signal_error', { event: 'wakeUp', error });
    };
    try {
      Promise.resolve(this.#options.onWakeUp()).catch(report);
    } catch (error) {
      report(error);
    }
  }
}
