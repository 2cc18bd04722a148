import { settledWithin } from '../deadline';
import { BrokerOutage } from './broker-error';

const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;

/** A connection that ends once, and is replaced then. */
export interface Replaceable {
  readonly isEnded: boolean;
  /** Takes no longer than so many milliseconds. Never rejects. */
  close(withinMs: number): Promise<void>;
}

/**
 * A connection that is opened when it is needed: at once the first time and after a loss; after a failed attempt not
 * before a back-off has passed.
 */
export class Reconnector<C extends Replaceable> {
  readonly #open: (signal: AbortSignal) => Promise<C>;
  readonly #onFailure: (error: unknown) => void;
  readonly #running = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  #connection: C | undefined;
  #opening: Promise<C> | undefined;
  #failedAttempts = 0;
  #lastFailure: { readonly error: unknown; readonly retryAt: number } | undefined;
  #closed: Promise<void> | undefined;

  /**
   * @param open - opens a connection, or rejects with a BrokerOutage; at once when the signal is aborted
   * @param onFailure - told once of each failed attempt
   */
  constructor(open: (signal: AbortSignal) => Promise<C>, onFailure: (error: unknown) => void) {
    this.#open = open;
    this.#onFailure = onFailure;
  }

  /** @throws BrokerOutage; at once while a back-off lasts */
  async connect(): Promise<C> {
    if (this.#closed !== undefined) throw new BrokerOutage('The connection to the broker was closed');
    if (this.#opening !== undefined) return this.#opening;
    if (this.#connection?.isEnded === false) return this.#connection;
    if (this.#lastFailure !== undefined && performance.now() < this.#lastFailure.retryAt) {
      throw this.#lastFailure.error;
    }
    this.#opening = this.#attempt();
    try {
      return await this.#opening;
    } finally {
      this.#opening = undefined;
    }
  }

  /** Runs work over the connection; {@link close} waits for it. @throws BrokerOutage if there is no connection */
  async use<T>(work: (connection: C) => Promise<T>): Promise<T> {
    const running = this.connect().then(work);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Ends an attempt to connect at once, the connection when its work is done or `timeoutMs` are over. */
  close(timeoutMs: number): Promise<void> {
    return (this.#closed ??= this.#close(timeoutMs));
  }

  async #close(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    this.#closing.abort();
    await this.#opening?.catch(() => undefined);
    if (this.#running.size > 0) await settledWithin(Promise.allSettled(this.#running), timeoutMs);
    await this.#connection?.close(Math.max(0, deadline - performance.now()));
  }

  async #attempt(): Promise<C> {
    try {
      this.#connection = await this.#open(this.#closing.signal);
    } catch (error) {
      const delayMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#failedAttempts);
      this.#failedAttempts += 1;
      this.#lastFailure = { error, retryAt: performance.now() + delayMs * (0.5 + Math.random() / 2) };
      if (this.#closed === undefined) this.#onFailure(error);
      throw error;
    }
    this.#failedAttempts = 0;
    this.#lastFailure = undefined;
    return this.#connection;
  }
}
