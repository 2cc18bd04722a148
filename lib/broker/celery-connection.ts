import type { BackendSettings } from '../celery-options';
import { type CeleryBackend, Client } from './celery-node';
import { isRedis, redisTarget } from './redis/redis-target';

/** celery-node's backends as they are at run time; their types hide what has to be guarded. */
interface Guarded {
  connect?: Promise<AmqpEmitter>;
  channel?: Promise<AmqpEmitter>;
  redis?: RedisEmitter;
}
interface AmqpEmitter {
  on(event: 'error' | 'close', listener: (error?: Error) => void): unknown;
  close(): Promise<unknown>;
}
interface RedisEmitter {
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown;
  disconnect(): void;
}

/** A backend of celery-node, made safe to hold: it cannot crash the process, and it can be cut off. */
export interface CeleryConnection<T> {
  readonly target: T;
  /** Resolves when it is connected; rejects when connecting failed (celery-node's own isReady would hang). */
  ready(): Promise<void>;
  cut(): void;
}

/** @throws what the driver says of options that it cannot use */
export function connectBackend(
  settings: BackendSettings,
  onLost: (error: Error) => void,
): CeleryConnection<CeleryBackend> {
  const { url, options } = isRedis(settings.url) ? redisBackend(settings) : settings;
  const client = new Client(url, url);
  client.conf.CELERY_BACKEND_OPTIONS = options;
  return guard(client.backend, onLost);
}

/**
 * The server that chord sizes are written to, in options only: celery-node's ioredis 4 reads neither the user nor
 * `ssl_cert_reqs` from a URL.
 */
function redisBackend(settings: BackendSettings): { url: string; options: object } {
  const { driver, login } = redisTarget(settings.url, settings.options, settings.connectTimeoutMs);
  const { username, password, db, connectionName } = login;
  return {
    url: 'redis://',
    options: {
      family: 0,
      ...driver,
      keyPrefix: `${driver.keyPrefix ?? ''}${settings.keyPrefix}`,
      ...(password !== undefined && { username, password }),
      // ioredis 4 takes NaN for 0; this one Redis refuses.
      db: Number.isNaN(db) ? -1 : db,
      connectionName,
      // celery-node asks before it is connected. The check comes after login and choice of the database.
      lazyConnect: false,
      enableOfflineQueue: true,
      enableReadyCheck: true,
    },
  };
}

// celery-node listens to none of its connections: one refused or reset is an unhandled rejection or an
// 'error' event without a listener, and either ends the process.
function guard<T extends { isReady(): Promise<unknown> }>(
  target: T,
  onLost: (error: Error) => void,
): CeleryConnection<T> {
  const { connect, channel, redis } = target as unknown as Guarded;
  const lost = (error?: Error): void => {
    onLost(error ?? new Error('connection closed'));
  };
  for (const link of [connect, channel]) {
    link?.then((emitter) => {
      emitter.on('error', lost);
      emitter.on('close', () => {
        lost();
      });
    }, lost);
  }
  redis?.on('error', lost);
  redis?.on('end', lost);
  return {
    target,
    async ready() {
      await connect;
      await channel;
      await target.isReady();
    },
    cut() {
      redis?.disconnect();
      connect?.then((connection) => connection.close()).catch(() => undefined);
    },
  };
}
