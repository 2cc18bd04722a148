import Redis from 'ioredis';
import { settledWithin } from '../../deadline';
import { BrokerOutage } from '../broker-error';
import { Reconnector, type Replaceable } from '../reconnector';
import { type Failure, needsNewConnection, outage, reasonOf, replyCode, toFailure } from './failure';
import { logIn } from './log-in';
import type { RedisTarget } from './redis-target';
import { Watchdog } from './watchdog';

export type Answer<T> = { readonly status: 'answered'; readonly value: T } | Failure;

export interface Timeouts {
  readonly connectTimeoutMs: number;
  readonly sendTimeoutMs: number;
}

/** How long an attempt that failed waits for its socket to be gone, of which nobody else knows then. */
const GONE_WITHIN_MS = 50;

/**
 * One connection, from its opening to its loss; it is never opened again. Once it is lost, nothing that was asked
 * over it is sent any more.
 */
export class RedisConnection implements Replaceable {
  readonly #target: RedisTarget;
  readonly #connectTimeoutMs: number;
  readonly #redis: Redis;
  readonly #watchdog: Watchdog;
  readonly #ended: Promise<void>;
  #socketError: Error | undefined;
  #lost: BrokerOutage | undefined;
  /** Nobody is told before it is open, and when we close it. */
  #onLost: ((why: BrokerOutage) => void) | undefined;

  private constructor(target: RedisTarget, timeouts: Timeouts) {
    this.#target = target;
    this.#connectTimeoutMs = timeouts.connectTimeoutMs;
    this.#redis = new Redis(target.driver);
    this.#watchdog = new Watchdog(timeouts.sendTimeoutMs, () => {
      this.#drop(new BrokerOutage(`${target.name} did not answer within ${timeouts.sendTimeoutMs} ms`));
    });
    this.#redis.on('error', (error) => {
      this.#socketError ??= error;
    });
    this.#ended = new Promise((resolve) => {
      this.#redis.once('end', () => {
        this.#drop(this.#whyEnded());
        resolve();
      });
    });
  }

  /**
   * Connects and logs in.
   *
   * @param onLost - told once, when what was open is lost
   * @throws BrokerOutage within the connect timeout; at once when the signal is aborted
   */
  static async open(
    target: RedisTarget,
    timeouts: Timeouts,
    signal: AbortSignal,
    onLost: (why: BrokerOutage) => void,
  ): Promise<RedisConnection> {
    const connection = RedisConnection.#create(target, timeouts);
    const stop = (): void => {
      connection.#drop(connection.#closedOutage());
    };
    signal.addEventListener('abort', stop);
    try {
      await connection.#open();
    } catch (error) {
      await settledWithin(connection.#ended, GONE_WITHIN_MS);
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
    connection.#onLost = onLost;
    return connection;
  }

  get isEnded(): boolean {
    return this.#lost !== undefined;
  }

  /**
   * Asks Redis for something, without waiting for what was asked before. If no answer comes within the send timeout
   * of its turn, the connection is dropped: what Redis made of it, and of all that followed, is unknown.
   *
   * @param what - for messages, such as `messages for queue "celery"`
   * @returns the answer or why there is none; never rejects
   */
  async ask<T>(what: string, command: (redis: Redis) => Promise<T>): Promise<Answer<T>> {
    if (this.#lost !== undefined) return outage(this.#lost);
    this.#watchdog.expect();
    try {
      return { status: 'answered', value: await command(this.#redis) };
    } catch (error) {
      return this.#failure(what, error);
    } finally {
      this.#watchdog.answered();
    }
  }

  /** Cuts it at once, without asking Redis, and waits until its socket is gone. */
  async close(): Promise<void> {
    this.#onLost = undefined;
    this.#drop(this.#closedOutage());
    await settledWithin(this.#ended, this.#connectTimeoutMs);
  }

  static #create(target: RedisTarget, timeouts: Timeouts): RedisConnection {
    try {
      return new RedisConnection(target, timeouts);
    } catch (error) {
      throw new BrokerOutage(`The options for ${target.name} cannot be used: ${reasonOf(error)}`, error);
    }
  }

  async #open(): Promise<void> {
    const { name } = this.#target;
    const ms = this.#connectTimeoutMs;
    const inTime = await settledWithin(this.#prepare(), ms);
    if (!inTime) this.#drop(new BrokerOutage(`${name} was not ready within ${ms} ms of connecting`));
    if (this.#lost !== undefined) throw this.#lost;
  }

  async #prepare(): Promise<void> {
    try {
      await this.#redis.connect();
      const refused = await logIn(this.#redis, this.#target);
      if (refused !== undefined) this.#drop(refused);
    } catch {
      this.#drop(this.#whyEnded());
    }
  }

  /** What waits for an answer is reported as this outage. */
  #drop(why: BrokerOutage): void {
    if (this.#lost !== undefined) return;
    this.#lost = why;
    this.#watchdog.stop();
    // Also of one that has ended: it may still listen to Sentinels.
    this.#redis.disconnect();
    this.#onLost?.(why);
  }

  #closedOutage(): BrokerOutage {
    return new BrokerOutage(`The connection to ${this.#target.name} was closed`);
  }

  #whyEnded(): BrokerOutage {
    const error = this.#socketError;
    const reason = error === undefined ? 'the server closed it' : reasonOf(error);
    return new BrokerOutage(`No connection to ${this.#target.name}: ${reason}`, error);
  }

  #failure(what: string, error: unknown): Failure {
    if (replyCode(error) === undefined) {
      // The connection is lost, and ioredis's own error does not say why.
      const why = this.#lost ?? this.#whyEnded();
      this.#drop(why);
      return outage(why);
    }
    const failure = toFailure(what, error);
    if (failure.status === 'outage' && needsNewConnection(error)) this.#drop(failure.error);
    return failure;
  }
}

/** @param onConnectionError - called once for each failed attempt and each loss */
export function redisConnections(
  target: RedisTarget,
  timeouts: Timeouts,
  onConnectionError: (error: unknown) => void,
): Reconnector<RedisConnection> {
  return new Reconnector({
    name: target.name,
    open: (signal) => RedisConnection.open(target, timeouts, signal, onConnectionError),
    onFailure: onConnectionError,
    closeTimeoutMs: timeouts.sendTimeoutMs,
  });
}
