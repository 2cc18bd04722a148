import { settledWithin } from '../../deadline';
import { BrokerOutage } from '../broker-error';
import { Backoff } from './backoff';
import { reasonOf } from './failure';
import { RedisConnection, type Timeouts } from './redis-connection';
import type { RedisTarget } from './redis-target';

/**
 * A connection to one Redis that is opened when it is needed: at once the first time and after a loss, after a failed
 * attempt not before a back-off has passed.
 */
export class RedisSession {
  readonly #target: RedisTarget;
  readonly #timeouts: Timeouts;
  readonly #onConnectionError: (error: unknown) => void;
  readonly #backoff = new Backoff();
  readonly #running = new Set<Promise<unknown>>();
  #connection: RedisConnection | undefined;
  #opening: Promise<RedisConnection> | undefined;
  #lastFailure: BrokerOutage | undefined;
  #isClosed = false;
  #closing: Promise<void> | undefined;

  /** @param onConnectionError - called once for each failed attempt and each loss */
  constructor(target: RedisTarget, timeouts: Timeouts, onConnectionError: (error: unknown) => void) {
    this.#target = target;
    this.#timeouts = timeouts;
    this.#onConnectionError = onConnectionError;
  }

  /** @throws BrokerOutage; at once while a back-off lasts */
  async connect(): Promise<RedisConnection> {
    if (this.#isClosed) throw this.#closedOutage();
    if (this.#opening !== undefined) return this.#opening;
    if (this.#connection?.isLost === false) return this.#connection;
    if (this.#lastFailure !== undefined && !this.#backoff.isOver) throw this.#lastFailure;
    this.#opening = this.#open();
    try {
      return await this.#opening;
    } finally {
      this.#opening = undefined;
    }
  }

  /** Runs work over the connection; {@link close} waits for it. @throws BrokerOutage if there is no connection */
  async use<T>(work: (connection: RedisConnection) => Promise<T>): Promise<T> {
    const running = this.connect().then(work);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Ends an attempt to connect at once, the connection when its work is done or the send timeout is over. */
  close(): Promise<void> {
    this.#isClosed = true;
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    const { sendTimeoutMs, connectTimeoutMs } = this.#timeouts;
    if (this.#opening === undefined) await settledWithin(Promise.allSettled(this.#running), sendTimeoutMs);
    connection.drop(this.#closedOutage());
    await settledWithin(connection.ended(), connectTimeoutMs);
  }

  async #open(): Promise<RedisConnection> {
    const connection = this.#createConnection();
    this.#connection = connection;
    try {
      await connection.open();
    } catch (error) {
      throw this.#failed(error as BrokerOutage);
    }
    this.#backoff.succeeded();
    return connection;
  }

  #createConnection(): RedisConnection {
    const report = (why: BrokerOutage): void => {
      if (!this.#isClosed) this.#onConnectionError(why);
    };
    try {
      return new RedisConnection(this.#target, this.#timeouts, report);
    } catch (error) {
      const why = new BrokerOutage(`celery.brokerOptions cannot be used: ${reasonOf(error)}`, error);
      report(why);
      throw this.#failed(why);
    }
  }

  #failed(error: BrokerOutage): BrokerOutage {
    this.#backoff.failed();
    this.#lastFailure = error;
    return error;
  }

  #closedOutage(): BrokerOutage {
    return new BrokerOutage(`The connection to ${this.#target.name} was closed`);
  }
}
