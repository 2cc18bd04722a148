import Redis from 'ioredis';
import { databaseUrl, removeAll } from './redis-database';

/** A Redis that serves as result backend. */
export interface BackendBench {
  readonly url: string;
  /** Takes out everything that was written. */
  take(): Promise<Record<string, { value: string | null; ttl: number }>>;
  close(): Promise<void>;
}

const BACKEND_DATABASE = 15;

export function createBackendBench(server: string): BackendBench {
  const url = databaseUrl(server, BACKEND_DATABASE);
  const redis = new Redis(url);
  return {
    url,
    async take() {
      const keys = await redis.keys('*');
      const written = keys.map(
        async (key) => [key, { value: await redis.get(key), ttl: await redis.ttl(key) }] as const,
      );
      const writes = Object.fromEntries(await Promise.all(written));
      await removeAll(redis);
      return writes;
    },
    async close() {
      await removeAll(redis);
      redis.disconnect();
    },
  };
}
