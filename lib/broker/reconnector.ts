import { settledWithin } from '../deadline';
import { Backoff } from './backoff';
import { BrokerOutage } from './broker-error';

/** One that ends sooner, before it was of use, was opened in vain. */
const SETTLED_AFTER_MS = 1_000;

/** A connection that ends once, and is replaced then. */
export interface Replaceable {
  readonly isEnded: boolean;
  /** @param withinMs - how long a server may take over it. Never rejects. */
  close(withinMs: number): Promise<void>;
}

export interface ReconnectorOptions<C extends Replaceable> {
  /** Of the server, for messages. */
  readonly name: string;
  /** Opens a connection, or rejects with a BrokerOutage; at once when the signal is aborted. */
  readonly open: (signal: AbortSignal) => Promise<C>;
  /** Told once of each failed attempt; what is lost later, the connection reports itself. */
  readonly onFailure: (error: unknown) => void;
  /** How long {@link Reconnector.close} may take. */
  readonly closeTimeoutMs: number;
}

/**
 * A connection that is opened when it is needed: at once the first time and after a loss; after a failed attempt not
 * before a back-off has passed. A connection that is opened in vain, as by a server that accepts and drops, counts as a
 * failed attempt too, unless what was before it was good: one loss may happen to any.
 */
export class Reconnector<C extends Replaceable> {
  readonly #options: ReconnectorOptions<C>;
  readonly #backoff = new Backoff();
  readonly #running = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #connection: C | undefined;
  /** When it was opened; undefined as soon as it is known whether that was a success. */
  #openedAt: number | undefined;
  /** The attempt before failed, or was in vain. */
  #isSuspect = false;
  #opening: Promise<C> | undefined;
  #lastFailure: unknown;
  #closed: Promise<void> | undefined;

  constructor(options: ReconnectorOptions<C>) {
    this.#options = options;
  }

  /** @throws BrokerOutage; at once while a back-off lasts */
  async connect(): Promise<C> {
    if (this.#closing.signal.aborted) {
      throw new BrokerOutage(`The connection to ${this.#options.name} was closed`);
    }
    if (this.#opening !== undefined) return this.#opening;
    if (this.#connection?.isEnded === false) return this.#connection;
    this.#judge();
    if (!this.#backoff.isOver) throw this.#lastFailure;
    this.#opening = this.#open();
    try {
      return await this.#opening;
    } finally {
      this.#opening = undefined;
    }
  }

  /** Runs work over the connection; {@link close} waits for it. @throws BrokerOutage if there is no connection */
  async use<T>(work: (connection: C) => Promise<T>): Promise<T> {
    const running = this.connect().then((connection) => this.#work(connection, work));
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Ends an attempt to connect at once, the connection when its work is done or the time for closing is over. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close(this.#options.closeTimeoutMs));
  }

  async #close(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    this.#closing.abort();
    await this.#opening?.catch(() => undefined);
    if (this.#running.size > 0) await settledWithin(Promise.allSettled(this.#running), timeoutMs);
    await this.#connection?.close(Math.max(0, deadline - performance.now()));
  }

  async #work<T>(connection: C, work: (connection: C) => Promise<T>): Promise<T> {
    try {
      const result = await work(connection);
      if (connection === this.#connection && !connection.isEnded) this.#succeeded();
      return result;
    } finally {
      if (connection === this.#connection && connection.isEnded) this.#judge();
    }
  }

  /** What opening the connection was worth, now that it has ended. */
  #judge(): void {
    if (this.#openedAt === undefined) return;
    if (performance.now() - this.#openedAt >= SETTLED_AFTER_MS) {
      this.#succeeded();
      return;
    }
    this.#openedAt = undefined;
    const { name } = this.#options;
    if (this.#isSuspect) this.#failed(new BrokerOutage(`${name} drops connections that were just opened`));
    this.#isSuspect = true;
  }

  #failed(error: unknown): void {
    this.#isSuspect = true;
    this.#backoff.failed();
    this.#lastFailure = error;
  }

  #succeeded(): void {
    this.#openedAt = undefined;
    this.#isSuspect = false;
    this.#backoff.succeeded();
  }

  async #open(): Promise<C> {
    try {
      this.#connection = await this.#options.open(this.#closing.signal);
    } catch (error) {
      this.#failed(error);
      if (!this.#closing.signal.aborted) this.#options.onFailure(error);
      throw error;
    }
    this.#openedAt = performance.now();
    return this.#connection;
  }
}
