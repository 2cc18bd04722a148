import type { Broker } from '../broker/port';
import type { CeleryMessage, Route } from '../message/celery-message';

export interface BrokerTimeouts {
  /** How long the broker may take to connect. */
  readonly connectTimeoutMs: number;
  /** How long the broker may take to acknowledge a message. */
  readonly sendTimeoutMs: number;
}

/** A message as it lies in a queue, decoded without loss. Its task id is the header `id`. */
export type QueuedMessage = Pick<CeleryMessage, 'headers' | 'properties' | 'body'>;

/**
 * What the contract has to know of a broker and its server, which no other test may use meanwhile.
 *
 * The parts that are optional are capabilities: without one of them, the checks that need it are left out.
 */
export interface BrokerHarness {
  /** A broker under test, not connected yet. The contract closes it. */
  createBroker(timeouts: BrokerTimeouts): Broker;

  /** The name of a new and empty queue that exists. Messages reach it through the default exchange. */
  createQueue(): Promise<string>;

  /** Takes everything out of a queue and gives it, oldest first; at least within each priority. */
  take(queue: string): Promise<readonly QueuedMessage[]>;

  /** Routes that lead nowhere, by what they are, such as `an exchange that does not exist`. */
  readonly deadEnds: Readonly<Record<string, Route>>;

  /**
   * What makes a message one that cannot be taken, by what it is, such as `a header that does not fit`. Each returns
   * a copy of the given message with this flaw.
   */
  readonly badMessages: Readonly<
    Record<string, (message: CeleryMessage) => CeleryMessage | Promise<CeleryMessage>>
  >;

  /**
   * Takes the server away: open connections end, new ones are refused. Either by stopping it or by cutting the way
   * to it; what lies in its queues stays.
   */
  stop(): Promise<void>;

  /** Ends {@link stop} and {@link silence}; resolves when the server answers. Does nothing while it runs. */
  start(): Promise<void>;

  /**
   * Lets the server fall silent: connections stay open and new ones are accepted, but what is sent over them is lost
   * and nothing comes back. They end with {@link start}.
   */
  silence?(): Promise<void>;

  /**
   * Ends the server, however rudely, and starts it again; resolves when it answers. Only for a server that keeps its
   * messages: everything that it acknowledged has to be there.
   */
  restart?(): Promise<void>;

  /**
   * How long a check waits for what has no timeout of its own, such as the next attempt to connect when the server is
   * back. More than the broker's longest back-off.
   *
   * @defaultValue 15000
   */
  readonly patienceMs?: number;

  /** How many connections to the server its brokers have open. */
  countConnections?(): number | Promise<number>;
}
