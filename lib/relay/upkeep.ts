import { logEvent, type Logger } from '../telemetry/logger';
import { countUnknownVersions, PURGE_LIMIT, purgeKeys, purgeSent } from '../store/relay/upkeep';
import type { Database } from '../store/relay/statement';
import type { TableNames } from '../store/table-names';

const EVERY_MS = 60_000;

export interface UpkeepSettings {
  readonly cleanUpAfter: 'immediately' | 'never' | number;
  readonly idempotencyWindowMs: number;
}

/** What has to be done to the tables now and then, whether or not there is something to send. */
export class Upkeep {
  #dueAt = 0;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(
    private readonly database: Database,
    private readonly names: TableNames,
    private readonly settings: UpkeepSettings,
    private readonly logger: Logger,
  ) {}

  /** Once a minute; to be called by one relay of all. Does not wait for it. */
  beat(): void {
    if (this.#isStopped || this.#running !== undefined || performance.now() < this.#dueAt) return;
    this.#dueAt = performance.now() + EVERY_MS;
    this.#running = this.run().finally(() => (this.#running = undefined));
  }

  /** Begins nothing more; the statement that is under way ends. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Stops it. Resolves when nothing is under way. */
  async idle(): Promise<void> {
    this.stop();
    await this.#running;
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const { database, names, logger } = this;
    const { cleanUpAfter, idempotencyWindowMs } = this.settings;
    try {
      const versions = await countUnknownVersions(database, names);
      if (versions.length > 0) logEvent(logger, 'warn', 'celery_outbox_unknown_version', { versions });
      await this.#purge(() => purgeKeys(database, names, idempotencyWindowMs));
      if (typeof cleanUpAfter === 'number') await this.#purge(() => purgeSent(database, names, cleanUpAfter));
    } catch (error) {
      logEvent(logger, 'warn', 'celery_outbox_upkeep_failed', { error });
    }
  }

  // A busy relay archives more in a minute than one statement deletes.
  async #purge(deleteSome: () => Promise<number>): Promise<void> {
    while (!this.#isStopped) {
      if ((await deleteSome()) < PURGE_LIMIT) return;
    }
  }
}
