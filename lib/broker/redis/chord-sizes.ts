import type { BackendSettings, CelerySettings } from '../../celery-options';
import { BackendOutage, MessageFault } from '../broker-error';
import type { Reconnector } from '../reconnector';
import { reasonOf } from './failure';
import { type RedisConnection, redisConnections } from './redis-connection';
import { isRedis, redisTarget } from './redis-target';

/** Why a chord's size is not written: its parts must not be published. */
export type SizeError = BackendOutage | MessageFault;

/**
 * Tells the result backend how many parts each chord has, which it must know before the first part is published:
 * else the chord's body never runs.
 */
export class ChordSizes {
  readonly #backend: BackendSettings | undefined;
  readonly #connections: Reconnector<RedisConnection> | undefined;

  /** @param onConnectionError - called once for each failed attempt to connect and each loss of a connection */
  constructor(settings: CelerySettings, onConnectionError: (error: unknown) => void) {
    const { backend } = settings;
    if (backend === undefined || !isRedis(backend.url)) return;
    this.#backend = backend;
    const target = redisTarget(backend.url, backend.options, backend.connectTimeoutMs);
    this.#connections = redisConnections(target, settings, (error) => {
      onConnectionError(asBackendOutage(error));
    });
  }

  /**
   * Connects when it is first needed. Settles within the connect timeout and the send timeout; never rejects.
   *
   * @param sizes - by group id
   * @returns why a size is not written, by group id; empty when all are
   */
  async write(sizes: ReadonlyMap<string, number>): Promise<ReadonlyMap<string, SizeError>> {
    if (sizes.size === 0) return new Map();
    const [backend, connections] = [this.#backend, this.#connections];
    if (backend === undefined || connections === undefined) return forAll(sizes, noBackend());
    try {
      return await connections.use((connection) => writeOver(connection, backend, sizes));
    } catch (error) {
      return forAll(sizes, asBackendOutage(error));
    }
  }

  async close(): Promise<void> {
    await this.#connections?.close();
  }
}

async function writeOver(
  connection: RedisConnection,
  { keyPrefix, expiresSeconds }: BackendSettings,
  sizes: ReadonlyMap<string, number>,
): Promise<Map<string, SizeError>> {
  const failed = new Map<string, SizeError>();
  const writing = [...sizes].map(async ([group, size]) => {
    const answer = await connection.ask('the size of a chord', (redis) =>
      redis.setex(`${keyPrefix}celery-taskset-meta-${group}.s`, expiresSeconds, size),
    );
    if (answer.status === 'fault') failed.set(group, answer.error);
    if (answer.status === 'outage') failed.set(group, asBackendOutage(answer.error));
  });
  await Promise.all(writing);
  return failed;
}

function forAll(sizes: ReadonlyMap<string, number>, error: SizeError): Map<string, SizeError> {
  return new Map([...sizes.keys()].map((group) => [group, error]));
}

function noBackend(): MessageFault {
  return new MessageFault(
    'ERR_CELERY_OUTBOX_MESSAGE_REFUSED',
    'A chord needs a result backend in Redis: give createOutbox celery.backend, a redis:// or rediss:// URL',
  );
}

/** What is an outage of Redis to its connection is none of the broker. */
function asBackendOutage(error: unknown): BackendOutage {
  return new BackendOutage(`The result backend cannot be told of a chord: ${reasonOf(error)}`, error);
}
