import { randomUUID } from 'node:crypto';
import { type Channel, type ChannelModel, connect, type ConsumeMessage, type Options } from 'amqplib';
import { service } from './services';

/** A connection of a test's own, to look behind the broker's back. What it creates is removed in the end. */
export class AmqpAdmin {
  readonly channel: Channel;
  readonly #model: ChannelModel;
  readonly #queues = new Set<string>();
  readonly #exchanges = new Set<string>();

  private constructor(model: ChannelModel, channel: Channel) {
    this.#model = model;
    this.channel = channel;
  }

  static async connect(url: string): Promise<AmqpAdmin> {
    const model = await connect(url);
    return new AmqpAdmin(model, await model.createChannel());
  }

  /** A name that no other test has, of a queue that may come to be. */
  queueName(): string {
    const name = `queue-${randomUUID()}`;
    this.#queues.add(name);
    return name;
  }

  exchangeName(): string {
    const name = `exchange-${randomUUID()}`;
    this.#exchanges.add(name);
    return name;
  }

  async queue(options: Options.AssertQueue = {}): Promise<string> {
    const name = this.queueName();
    await this.channel.assertQueue(name, options);
    return name;
  }

  async exchange(type: 'direct' | 'topic' | 'fanout'): Promise<string> {
    const name = this.exchangeName();
    await this.channel.assertExchange(name, type);
    return name;
  }

  /** An exchange of type topic with a queue that gets all that matches. */
  async bound(pattern: string): Promise<{ exchange: string; queue: string }> {
    const [exchange, queue] = [await this.exchange('topic'), await this.queue()];
    await this.channel.bindQueue(queue, exchange, pattern);
    return { exchange, queue };
  }

  async count(queue: string): Promise<number> {
    return (await this.channel.checkQueue(queue)).messageCount;
  }

  /** Takes what lies in a queue, oldest first. */
  async take(queue: string): Promise<ConsumeMessage[]> {
    const count = await this.count(queue);
    const taken: ConsumeMessage[] = [];
    if (count === 0) return taken;
    await new Promise<void>((resolve, reject) => {
      const onMessage = (message: ConsumeMessage | null): void => {
        if (message === null) return;
        if (taken.push(message) === count) resolve();
      };
      this.channel.consume(queue, onMessage, { noAck: true, consumerTag: queue }).catch(reject);
    });
    await this.channel.cancel(queue);
    return taken;
  }

  /** Takes the ids of the tasks in a queue, oldest first. */
  async takeIds(queue: string): Promise<string[]> {
    return (await this.take(queue)).map(({ properties }) => String(properties.headers?.['id']));
  }

  async close(): Promise<void> {
    for (const name of this.#queues) await this.channel.deleteQueue(name);
    for (const name of this.#exchanges) await this.channel.deleteExchange(name);
    await this.#model.close();
  }
}

/** The RabbitMQ of this run, and an admin of it for a suite. */
export function useAdmin(): { url: string; admin: AmqpAdmin } {
  const bundle = {} as { url: string; admin: AmqpAdmin };
  before(async () => {
    bundle.url = (await service('rabbitmq')).url;
    bundle.admin = await AmqpAdmin.connect(bundle.url);
  });
  after(async () => {
    await bundle.admin.close();
  });
  return bundle;
}
