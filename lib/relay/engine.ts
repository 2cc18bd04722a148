import { BackendOutage } from '../broker/broker-error';
import { Publisher } from '../broker/publisher';
import type { Database } from '../store/relay/statement';
import type { OutboxEvents } from '../telemetry/events';
import { Breaker } from './breaker';
import { Pass, type PassSettings } from './pass';
import { publishRows } from './publish-rows';
import type { RelaySettings } from './relay-options';
import { createRelayStore } from './relay-store';
import { Report } from './report';
import { Retries } from './retry-policy';

export interface PassOrders {
  /** Which partitions may be worked on now. */
  readonly partitions: () => readonly number[];
  /** Only rows that have been due for so long. */
  readonly minAgeMs: number;
  readonly isStopping: () => boolean;
  readonly onProgress: () => void;
}

/** What all passes of a relay share: the broker, its breaker, and the way to the table. */
export class Engine {
  readonly breaker: Breaker;
  readonly #settings: RelaySettings;
  readonly #publisher: Publisher;
  readonly #abandon = new AbortController();
  readonly #createPass: (orders: PassOrders) => Pass;

  constructor(settings: RelaySettings, database: Database, events: OutboxEvents) {
    const { names, celery, logger } = settings;
    const report = new Report(events, logger);
    const store = createRelayStore(database, names, {
      leaseMs: settings.leaseMs,
      outageCooldownMs: settings.outageCooldownMs,
      deadLettersBlock: settings.onDeadLetter === 'block',
      archives: settings.cleanUpAfter !== 'immediately',
    });
    this.#settings = settings;
    this.#publisher = new Publisher(celery, logger);
    this.breaker = new Breaker(settings.outageCooldownMs);
    const parts = {
      store,
      report,
      logger,
      publish: publishRows(this.#publisher, report),
      breaker: this.breaker,
      abandoned: this.#abandon.signal,
      retries: new Retries(settings, settings.retryPolicy, logger),
      isBrokerOutage: (error: Error): boolean => !(error instanceof BackendOutage),
    };
    this.#createPass = ({ minAgeMs, ...orders }) =>
      new Pass({ ...this.#passSettings, minAgeMs }, { ...parts, ...orders });
  }

  createPass(orders: PassOrders): Pass {
    return this.#createPass(orders);
  }

  /** Ends the connections to the broker: what is still being sent is an outage then. Never rejects. */
  async close(): Promise<void> {
    await this.#publisher.close();
  }

  /** Gives up what is not settled yet. */
  abandon(): void {
    this.#abandon.abort();
  }

  get #passSettings(): Omit<PassSettings, 'minAgeMs'> {
    const { batchSize, batchesInFlight, leaseMs, partitions } = this.#settings;
    return { batchSize, batchesInFlight, leaseMs, partitionCount: partitions };
  }
}
