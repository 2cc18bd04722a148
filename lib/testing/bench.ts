import type { BrokerHarness, BrokerTimeouts } from './broker-harness';
import { idOf } from './sample-message';
import { Traffic } from './traffic';
import { WatchedBroker } from './watched-broker';

export interface Check {
  readonly title: string;
  readonly run: (bench: Bench) => Promise<void>;
}

/** For everything that is not about time. */
const CALM: BrokerTimeouts = { connectTimeoutMs: 5_000, sendTimeoutMs: 10_000 };
const PATIENCE_MS = 15_000;

/** What one check works with. */
export class Bench {
  readonly harness: BrokerHarness;
  readonly #patienceMs: number;
  readonly #brokers: WatchedBroker[] = [];

  private constructor(harness: BrokerHarness) {
    this.harness = harness;
    this.#patienceMs = harness.patienceMs ?? PATIENCE_MS;
  }

  /** Runs a check, then brings the server back and closes what the check created. */
  static async use(harness: BrokerHarness, run: Check['run']): Promise<void> {
    const bench = new Bench(harness);
    try {
      await run(bench);
    } catch (error) {
      // This error says what is wrong; one of the cleaning up would only follow from it.
      await bench.#clear().catch(() => undefined);
      throw error;
    }
    await bench.#clear();
  }

  createBroker(timeouts: Partial<BrokerTimeouts> = {}): WatchedBroker {
    const broker = new WatchedBroker(this.harness.createBroker({ ...CALM, ...timeouts }), this.#patienceMs);
    this.#brokers.push(broker);
    return broker;
  }

  createQueue(): Promise<string> {
    return this.harness.createQueue();
  }

  /** The task ids in a queue, oldest first; the queue is empty then. */
  async takeIds(queue: string): Promise<string[]> {
    return (await this.harness.take(queue)).map(idOf);
  }

  /** Publishes all the time, until `act` has ended. */
  publishDuring(
    broker: WatchedBroker,
    queue: string,
    act: (traffic: Traffic) => Promise<void>,
  ): Promise<Traffic> {
    return Traffic.during([broker, queue, this.#patienceMs], act);
  }

  async #clear(): Promise<void> {
    await this.harness.start();
    await Promise.all(this.#brokers.map((broker) => broker.close(this.#patienceMs)));
  }
}
