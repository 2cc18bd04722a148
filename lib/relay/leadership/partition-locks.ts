import type { RedisOptions } from 'ioredis';
import { ELECT, RELEASE } from './lock-scripts';
import { RedisLink } from './redis-link';

export interface PartitionLocksOptions {
  readonly redis: string | RedisOptions;
  readonly name: string;
  readonly relayId: string;
  readonly partitions: number;
  readonly lockTtlMs: number;
}

export interface Election {
  /** Partitions of this relay, for a TTL from when the election began. */
  readonly own: readonly number[];
  /** What it has beyond its share: to be released once it no longer works on them. */
  readonly excess: readonly number[];
  /** The relay that leads each partition. */
  readonly leaders: readonly (string | null)[];
  /** How many relays there are. */
  readonly relays: number;
}

const MAX_TIMEOUT_MS = 2_000;

/**
 * The locks of an outbox in Redis, one for each partition, shared fairly among the relays that there are. Every call
 * settles within a third of the TTL, two seconds at most, and rejects when Redis did not do it.
 */
export class PartitionLocks {
  readonly #relayId: string;
  readonly #ttlMs: number;
  readonly #members: string;
  readonly #memberPrefix: string;
  readonly #locks: readonly string[];
  readonly #link: RedisLink;

  constructor({ redis, name, relayId, partitions, lockTtlMs }: PartitionLocksOptions) {
    this.#relayId = relayId;
    this.#ttlMs = lockTtlMs;
    // The braces keep all of them on one node of a Redis Cluster.
    this.#members = `{${name}}:relays`;
    this.#memberPrefix = `{${name}}:relay:`;
    this.#locks = Array.from({ length: partitions }, (_, partition) => `{${name}}:leader:${partition}`);
    this.#link = new RedisLink(redis, Math.min(lockTtlMs / 3, MAX_TIMEOUT_MS));
  }

  async elect(): Promise<Election> {
    const keys = [this.#members, this.#memberPrefix, ...this.#locks];
    const answer = await this.#link.ask((redis) =>
      redis.eval(ELECT, keys.length, ...keys, this.#relayId, this.#ttlMs),
    );
    const [own, owners, relays] = answer as [number[], (string | null)[], number];
    const excess = [...owners.keys()].filter(
      (partition) => owners[partition] === this.#relayId && !own.includes(partition),
    );
    const leaders = owners.map((owner, partition) => (excess.includes(partition) ? null : owner));
    return { own: own.toSorted((a, b) => a - b), excess, leaders, relays };
  }

  /** Frees locks for the other relays; those that are no longer ours stay as they are. */
  async release(partitions: readonly number[]): Promise<void> {
    const keys = partitions.flatMap((partition) => this.#locks[partition] ?? []);
    await this.#link.ask((redis) => redis.eval(RELEASE, keys.length, ...keys, this.#relayId));
  }

  /** Frees all our locks, and our share with them. */
  async leave(): Promise<void> {
    const locks = this.#locks;
    await this.#link.ask((redis) =>
      Promise.all([
        redis.eval(RELEASE, locks.length, ...locks, this.#relayId),
        redis.srem(this.#members, this.#relayId),
        redis.del(this.#memberPrefix + this.#relayId),
      ]),
    );
  }

  close(): Promise<void> {
    return this.#link.close();
  }
}
