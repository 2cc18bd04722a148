import { EventEmitter, once } from 'node:events';
import { type Channel, connect, type GetMessage } from 'amqplib';
import { bodyText, type CaptureBench } from './capture-bench';
import type { CapturedMessage, Golden } from './golden';
import { createRecordingProxy } from './recording-proxy';

export interface RabbitmqBench extends CaptureBench {
  /** What publishers have sent for this call, a buffer for each connection. */
  sent(): Buffer[];
}

export async function createRabbitmqBench(server: string): Promise<RabbitmqBench> {
  const proxy = await createRecordingProxy(server);
  const connection = await connect(server);
  const channel = await connection.createChannel();
  let used: Golden | undefined;
  let expired: (() => Promise<CapturedMessage>) | undefined;

  const clear = async (golden: Golden): Promise<void> => {
    for (const queue of queuesOf(golden)) await channel.deleteQueue(queue);
    for (const exchange of exchangesOf(golden)) await channel.deleteExchange(exchange);
  };
  return {
    url: proxy.url,
    sent: () => proxy.take(),
    async prepare(golden) {
      if (used !== undefined) await clear(used);
      used = golden;
      await clear(golden);
      proxy.take();
      for (const { exchange, type, queue, binding_key } of golden.topology) {
        await channel.assertExchange(exchange, type);
        await channel.assertQueue(queue);
        await channel.bindQueue(queue, exchange, binding_key);
      }
      expired = await listenForExpired(channel, golden);
    },
    async take(golden) {
      const messages = expired === undefined ? [] : [await expired()];
      for (const queue of queuesOf(golden)) messages.push(...(await takeAll(channel, queue)));
      return messages;
    },
    async close() {
      if (used !== undefined) await clear(used);
      await connection.close();
      await proxy.close();
    },
  };
}

/** With the expiration 0, RabbitMQ drops a message that does not find a consumer waiting. */
async function listenForExpired(
  channel: Channel,
  { messages }: Golden,
): Promise<(() => Promise<CapturedMessage>) | undefined> {
  const queue = messages.find(({ properties }) => properties['expiration'] === '0')?.routing.queue;
  if (queue === undefined) return undefined;
  await channel.assertQueue(queue);
  const deliveries = new EventEmitter();
  const first = once(deliveries, 'message') as Promise<[GetMessage]>;
  await channel.consume(queue, (message) => deliveries.emit('message', message), { noAck: true });
  return async () => toCaptured(queue, (await first)[0]);
}

async function takeAll(channel: Channel, queue: string): Promise<CapturedMessage[]> {
  const messages: CapturedMessage[] = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return messages;
    messages.push(toCaptured(queue, message));
  }
}

function toCaptured(queue: string, { fields, properties, content }: GetMessage): CapturedMessage {
  const { headers = {}, ...others } = properties;
  const given = Object.entries(others).filter(([, value]) => value !== undefined);
  return {
    routing: { queue, exchange: fields.exchange, routing_key: fields.routingKey },
    properties: Object.fromEntries(given.map(([name, value]) => [snakeCase(name), value as unknown])),
    headers,
    body_raw: bodyText(content, headers),
  };
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function queuesOf({ messages, topology }: Golden): Set<string> {
  return new Set([...messages.map(({ routing }) => routing.queue!), ...topology.map(({ queue }) => queue)]);
}

function exchangesOf({ config, topology }: Golden): string[] {
  return [...topology, ...(config.task_queues ?? [])].map(({ exchange }) => exchange);
}
