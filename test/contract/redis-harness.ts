import Redis from 'ioredis';
import { RedisBroker } from '../../lib/broker/redis/redis-broker';
import type { CelerySettings } from '../../lib/celery-options';
import { parseJson } from '../../lib/message/json-text';
import type { BrokerHarness, CeleryMessage, QueuedMessage } from '../../lib/testing';
import { RealHarness } from './real-harness';

const SEP = '\x06\x16';
const SUFFIXES = ['', `${SEP}3`, `${SEP}6`, `${SEP}9`];

export class RedisHarness extends RealHarness {
  override readonly deadEnds: BrokerHarness['deadEnds'] = {
    'an exchange that no queue is bound to': { exchange: 'contract-none', routingKey: 'key', queue: null },
    'no queue at all': { exchange: '', routingKey: '', queue: null },
  };
  override readonly badMessages: BrokerHarness['badMessages'] = {
    'a header that contains itself': (message) => {
      const headers: Record<string, never> = {};
      return { ...message, headers: Object.assign(headers, { headers }) };
    },
    'a queue whose key holds something else': async (message) => {
      const queue = this.freshName();
      await this.#ask((redis) => redis.set(queue, 'text', 'EX', 60));
      return { ...message, route: { exchange: '', routingKey: queue, queue } };
    },
  };

  constructor() {
    super('redis', 'REDIS_URL');
  }

  override create(settings: CelerySettings): RedisBroker {
    return new RedisBroker(settings, () => undefined);
  }

  // A list is there as soon as something is in it.
  override createQueue(): Promise<string> {
    return Promise.resolve(this.freshName());
  }

  override take = async (queue: string): Promise<QueuedMessage[]> => {
    const keys = SUFFIXES.map((suffix) => queue + suffix);
    const lists = await this.#ask(async (redis) => {
      const found = await Promise.all(keys.map((key) => redis.lrange(key, 0, -1)));
      await redis.del(keys);
      return found;
    });
    return lists.flatMap((list) => list.toReversed().map(decode));
  };

  /** The server has no persistence but this: it writes everything down in the moment in which it ends. */
  protected override async crash(): Promise<void> {
    await this.#ask((redis) => redis.shutdown('SAVE').catch(() => undefined));
    await this.service.stop();
    await this.service.start();
  }

  async #ask<T>(question: (redis: Redis) => Promise<T>): Promise<T> {
    const redis = new Redis(this.service.url, { retryStrategy: () => null });
    redis.on('error', () => undefined);
    try {
      return await question(redis);
    } finally {
      // One that has ended would keep a timer for it.
      if (redis.status !== 'end') redis.disconnect();
    }
  }
}

interface Envelope {
  readonly body: string;
  readonly headers: CeleryMessage['headers'];
  readonly properties: Readonly<Record<string, unknown>>;
}

function decode(text: string): QueuedMessage {
  const { body, headers, properties } = parseJson(text) as unknown as Envelope;
  const { delivery_info: _info, delivery_tag: _tag, body_encoding: _encoding, ...rest } = properties;
  const camelCase = (name: string): string =>
    name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return {
    headers,
    properties: Object.fromEntries(
      Object.entries(rest).map(([name, value]) => [camelCase(name), value]),
    ) as unknown as QueuedMessage['properties'],
    body: Buffer.from(body, 'base64'),
  };
}
