import Redis, { type RedisOptions } from 'ioredis';
import { settledWithin } from '../../deadline';

const CONNECT_MS = 5_000;
const KEEP_ALIVE_MS = 30_000;
const MAX_RETRY_MS = 2_000;
const END_MS = 1_000;

/**
 * A connection for Bull, which is open again by itself until it is ended.
 *
 * Bull connects its blocking client anew while it closes and leaves the promise alone: a rejection would end the
 * process, and a success would leave a socket behind. So connecting never rejects, and does nothing in the end.
 */
export class BullConnection {
  readonly redis: Redis;
  readonly #connect: () => Promise<void>;
  #isEnded = false;

  /** @param name - for CLIENT LIST */
  constructor(server: string | RedisOptions, name: string) {
    const options = connectionOptions(name);
    this.redis =
      typeof server === 'string' ? new Redis(server, options) : new Redis({ ...server, ...options });
    // Bull takes its own listener away when it closes, and an error without one is printed.
    this.redis.on('error', () => undefined);
    this.#connect = this.redis.connect.bind(this.redis);
    this.redis.connect = async () => {
      if (!this.#isEnded) await this.#connect().catch(() => undefined);
    };
  }

  open(): void {
    void this.redis.connect();
  }

  /** For a server that is silent: what waits for it is sent again over a new connection. */
  reopen(): void {
    if (!this.#isEnded) this.redis.disconnect(true);
  }

  /** Cuts it; what waits for an answer fails. Resolves when its socket is gone. */
  async end(): Promise<void> {
    this.#isEnded = true;
    const { redis } = this;
    if (redis.status === 'end') return;
    const ended = new Promise<void>((resolve) => redis.once('end', resolve));
    // Between two attempts to connect, ioredis would say nothing to those who wait. An attempt that is called off does.
    if (redis.status === 'reconnecting') void this.#connect().catch(() => undefined);
    redis.disconnect();
    await settledWithin(ended, END_MS);
  }
}

function connectionOptions(name: string): RedisOptions {
  return {
    connectionName: name,
    connectTimeout: CONNECT_MS,
    disconnectTimeout: 0,
    keepAlive: KEEP_ALIVE_MS,
    retryStrategy: (times) => Math.min(50 * 2 ** times, MAX_RETRY_MS),
    // After a failover the old master is no use, and only a new connection finds the new one.
    reconnectOnError: (error) => error.message.includes('READONLY'),
    // Bull's commands wait for Redis as long as it takes.
    maxRetriesPerRequest: null,
    commandTimeout: undefined,
    enableOfflineQueue: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    lazyConnect: true,
    // Bull makes keys inside its scripts, and has a prefix of its own.
    keyPrefix: '',
  };
}
