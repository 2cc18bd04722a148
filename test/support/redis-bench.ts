import Redis from 'ioredis';
import { bodyText, type CaptureBench } from './capture-bench';
import type { CapturedMessage } from './golden';
import { databaseUrl, removeAll } from './redis-database';

export interface RedisBench extends CaptureBench {
  /** The members of every set of bindings, by key. */
  bindings(): Promise<Record<string, string[]>>;
}

interface Envelope {
  body: string;
  'content-type': string;
  'content-encoding': string;
  headers: Record<string, unknown>;
  properties: Record<string, unknown> & { delivery_info: { exchange: string; routing_key: string } };
}

/** A database of a Redis server that no other test uses. */
const DATABASE = 14;

export function createRedisBench(server: string): RedisBench {
  const url = databaseUrl(server, DATABASE);
  const redis = new Redis(url);
  return {
    url,
    async prepare({ topology, bindings = {} }) {
      await removeAll(redis);
      for (const { exchange } of topology) {
        const key = `_kombu.binding.${exchange}`;
        await redis.sadd(key, bindings[key]!);
      }
    },
    async take(golden) {
      const captured = golden.messages.map(({ routing }) => routing.list_key!);
      const lists = (await redis.keys('*')).filter((key) => !key.startsWith('_kombu.')).sort();
      const messages: CapturedMessage[] = [];
      for (const key of new Set([...captured, ...lists])) {
        const items = await redis.lrange(key, 0, -1);
        messages.push(...items.toReversed().map((item) => toCaptured(key, item)));
      }
      return messages;
    },
    async bindings() {
      const keys = await redis.keys('_kombu.binding.*');
      const sets = keys.map(async (key) => [key, (await redis.smembers(key)).sort()] as const);
      return Object.fromEntries(await Promise.all(sets));
    },
    async close() {
      await removeAll(redis);
      redis.disconnect();
    },
  };
}

function toCaptured(key: string, item: string): CapturedMessage {
  const { body, headers, properties, ...envelope } = JSON.parse(item) as Envelope;
  const content = Buffer.from(body, 'base64');
  // Node reads base64url too, and Python does not.
  if (content.toString('base64') !== body) throw new Error(`no base64: ${body}`);
  return {
    ...envelope,
    routing: { list_key: key, ...properties.delivery_info },
    headers,
    properties,
    body_raw: bodyText(content, headers),
  };
}
