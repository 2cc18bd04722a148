import { connect } from 'amqplib';
import Redis from 'ioredis';

/** A task message as it lies in a broker. */
export interface DeliveredTask {
  readonly headers: Record<string, unknown>;
  readonly body: unknown;
}

/** Takes the messages of a queue out of the broker, oldest first. */
export function takeTasks(url: string, queue: string): Promise<DeliveredTask[]> {
  return url.startsWith('redis') ? takeFromRedis(url, queue) : takeFromRabbitmq(url, queue);
}

async function takeFromRedis(url: string, queue: string): Promise<DeliveredTask[]> {
  const redis = new Redis(url);
  try {
    const items = await redis.lrange(queue, 0, -1);
    await redis.del(queue);
    return items.toReversed().map((item) => {
      const { headers, body } = JSON.parse(item) as { headers: Record<string, unknown>; body: string };
      return { headers, body: JSON.parse(Buffer.from(body, 'base64').toString()) as unknown };
    });
  } finally {
    redis.disconnect();
  }
}

async function takeFromRabbitmq(url: string, queue: string): Promise<DeliveredTask[]> {
  const connection = await connect(url);
  try {
    const channel = await connection.createChannel();
    await channel.assertQueue(queue, { durable: true });
    const tasks: DeliveredTask[] = [];
    for (;;) {
      const message = await channel.get(queue, { noAck: true });
      if (message === false) return tasks;
      const body = JSON.parse(message.content.toString()) as unknown;
      tasks.push({ headers: message.properties.headers ?? {}, body });
    }
  } finally {
    await connection.close();
  }
}
