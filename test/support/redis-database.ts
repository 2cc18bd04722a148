import type Redis from 'ioredis';

export async function removeAll(redis: Redis): Promise<void> {
  const keys = await redis.keys('*');
  if (keys.length > 0) await redis.del(keys);
}

/** The server's URL with another database. */
export function databaseUrl(server: string, database: number): string {
  const url = new URL(server);
  url.pathname = `/${String(database)}`;
  return url.href;
}
