import type { CelerySettings } from '../../celery-options';
import { BackendOutage, MessageFault } from '../broker-error';
import type { Reconnector } from '../reconnector';
import { reasonOf } from './failure';
import { type RedisConnection, redisConnections } from './redis-connection';
import { isRedis, redisTarget } from './redis-target';

/** Celery's default for `result_expires`. */
const EXPIRES_S = 86_400;

/**
 * Tells the result backend how many parts each chord has, which it must know before the first part is published:
 * else the chord's body never runs.
 */
export class ChordSizes {
  readonly #connections: Reconnector<RedisConnection> | undefined;

  /** @param onConnectionError - called once for each failed attempt to connect and each loss of a connection */
  constructor(settings: CelerySettings, onConnectionError: (error: unknown) => void) {
    const { backend } = settings;
    if (backend === undefined || !isRedis(backend.url)) return;
    const target = redisTarget(backend.url, backend.options, backend.connectTimeoutMs);
    this.#connections = redisConnections(target, settings, (error) => {
      onConnectionError(asBackendOutage(error));
    });
  }

  /**
   * Connects when it is first needed. Settles within the connect timeout and the send timeout; never rejects.
   *
   * @param sizes - by group id
   * @returns null when all are written
   */
  async write(sizes: ReadonlyMap<string, number>): Promise<BackendOutage | MessageFault | null> {
    if (sizes.size === 0) return null;
    if (this.#connections === undefined) {
      return new MessageFault(
        'ERR_CELERY_OUTBOX_MESSAGE_REFUSED',
        'A chord needs a result backend in Redis: give createOutbox celery.backend, a redis:// or rediss:// URL',
      );
    }
    try {
      return await this.#connections.use(async (connection) => {
        const answers = [...sizes].map(([group, size]) =>
          connection.ask('the size of a chord', (redis) =>
            redis.setex(`celery-taskset-meta-${group}.s`, EXPIRES_S, size),
          ),
        );
        for (const answer of await Promise.all(answers)) {
          if (answer.status === 'fault') return answer.error;
          if (answer.status === 'outage') return asBackendOutage(answer.error);
        }
        return null;
      });
    } catch (error) {
      return asBackendOutage(error);
    }
  }

  async close(): Promise<void> {
    await this.#connections?.close();
  }
}

/** What is an outage of Redis to its connection is none of the broker. */
function asBackendOutage(error: unknown): BackendOutage {
  return new BackendOutage(`The result backend cannot be told of a chord: ${reasonOf(error)}`, error);
}
