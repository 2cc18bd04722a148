import Redis, { type RedisOptions } from 'ioredis';
import { reasonOf } from '../../broker/redis/failure';
import { settledWithin, within } from '../../deadline';

interface Connection {
  readonly redis: Redis;
  readonly ended: Promise<void>;
  /** Why it failed; the commands themselves only learn that it is closed. */
  error: Error | undefined;
}

/**
 * Asks a Redis for something. Opens a connection when there is none, and throws it away with the first answer that is
 * an error or does not come: only a new one finds a new master, a new password, a server that is back. So nothing
 * runs in the background, and nothing is sent later than it was meant.
 */
export class RedisLink {
  readonly #server: string | RedisOptions;
  readonly #timeoutMs: number;
  #connection: Connection | undefined;

  constructor(server: string | RedisOptions, timeoutMs: number) {
    this.#server = server;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws Error within the timeout, connecting included; without what was sent, which may be a password */
  async ask<T>(command: (redis: Redis) => Promise<T>): Promise<T> {
    let connection: Connection | undefined;
    try {
      connection = this.#connection ??= this.#open();
      const answer = await within(command(connection.redis), this.#timeoutMs, () => this.#silence());
      // ioredis goes on in database 0 when another one is refused.
      if (connection.error !== undefined) throw connection.error;
      return answer;
    } catch (error) {
      this.#drop(connection);
      throw new Error(reasonOf(connection?.error ?? error));
    }
  }

  /** Waits until the socket is gone. Never rejects. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#drop(connection);
    if (connection !== undefined) await settledWithin(connection.ended, this.#timeoutMs);
  }

  #open(): Connection {
    const server = this.#server;
    const options = connectionOptions(this.#timeoutMs);
    const redis =
      typeof server === 'string' ? new Redis(server, options) : new Redis({ ...server, ...options });
    const ended = new Promise<void>((resolve) => redis.once('end', resolve));
    const connection: Connection = { redis, ended, error: undefined };
    redis.on('error', (error) => {
      connection.error ??= error;
    });
    return connection;
  }

  #drop(connection: Connection | undefined): void {
    if (connection === this.#connection) this.#connection = undefined;
    connection?.redis.disconnect();
  }

  #silence(): Error {
    return new Error(`Redis did not answer within ${this.#timeoutMs} ms`);
  }
}

/** A connection lives once; what is asked before it is open waits for it, no longer than the timeout. */
function connectionOptions(timeoutMs: number): RedisOptions {
  return {
    connectTimeout: timeoutMs,
    disconnectTimeout: 0,
    retryStrategy: null,
    sentinelRetryStrategy: () => null,
    sentinelCommandTimeout: timeoutMs,
    reconnectOnError: null,
    enableOfflineQueue: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    lazyConnect: false,
  };
}
