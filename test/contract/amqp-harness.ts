import type { Socket } from 'node:net';
import { connect, type Channel, type GetMessage } from 'amqplib';
import { AmqpBroker } from '../../lib/broker/amqp/amqp-broker';
import type { CelerySettings } from '../../lib/celery-options';
import type { BrokerHarness, CeleryMessage, QueuedMessage } from '../../lib/testing';
import { readHeaders } from './amqp-headers';
import { RealHarness } from './real-harness';

/** Adds a property that AMQP or RabbitMQ does not take. */
const withProperty =
  (properties: Partial<CeleryMessage['properties']>) =>
  (message: CeleryMessage): CeleryMessage => ({
    ...message,
    properties: { ...message.properties, ...properties },
  });
const withHeader =
  (value: string | bigint) =>
  (message: CeleryMessage): CeleryMessage => ({ ...message, headers: { ...message.headers, value } });

export class AmqpHarness extends RealHarness {
  override readonly deadEnds: BrokerHarness['deadEnds'] = {
    'an exchange that does not exist': { exchange: 'contract-none', routingKey: 'key', queue: null },
    'a key that no queue is bound with': { exchange: 'amq.direct', routingKey: 'contract-none', queue: null },
    'a queue that does not exist': { exchange: '', routingKey: 'contract-none', queue: null },
  };
  override readonly badMessages: BrokerHarness['badMessages'] = {
    'an integer of more than 64 bits': withHeader(2n ** 64n),
    'headers of more than 64 KiB': withHeader('x'.repeat(2 ** 16)),
    'a property of more than 255 bytes': withProperty({ correlationId: 'x'.repeat(256) }),
    // RabbitMQ answers this one by closing the channel.
    'an expiration of more than ten years': withProperty({ expiration: '999999999999' }),
    'a queue that is full': async (message) => {
      const queue = await this.createQueue({ 'x-max-length': 0, 'x-overflow': 'reject-publish' });
      return { ...message, route: { exchange: '', routingKey: queue, queue } };
    },
  };
  readonly #queues: string[] = [];

  constructor() {
    super('rabbitmq', 'AMQP_URL');
  }

  override create(settings: CelerySettings): AmqpBroker {
    return new AmqpBroker(settings, () => undefined);
  }

  override async createQueue(args: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const queue = this.freshName();
    await this.#ask((channel) => channel.assertQueue(queue, { durable: true, arguments: args }));
    this.#queues.push(queue);
    return queue;
  }

  override take = async (queue: string): Promise<QueuedMessage[]> => {
    const { answer: messages, frames } = await this.#ask(async (channel) => {
      const { messageCount } = await channel.checkQueue(queue);
      const gets = Array.from({ length: messageCount }, () => channel.get(queue, { noAck: true }));
      return (await Promise.all(gets)).filter((message) => message !== false);
    });
    const headers = readHeaders(frames);
    return messages.map((message, index) => ({
      headers: headers[index]!,
      properties: propertiesOf(message),
      body: message.content,
    }));
  };

  override async close(): Promise<void> {
    await this.#ask((channel) => Promise.all(this.#queues.map((queue) => channel.deleteQueue(queue))));
    await super.close();
  }

  // Not killed: RabbitMQ itself may then forget a queue that was declared seconds before, with what it acknowledged.
  protected override async crash(): Promise<void> {
    await this.service.stop();
    await this.service.start();
  }

  async #ask<T>(question: (channel: Channel) => Promise<T>): Promise<{ answer: T; frames: Buffer }> {
    const model = await connect(this.service.url);
    try {
      const frames = record((model.connection as unknown as { stream: Socket }).stream);
      const channel = await model.createChannel();
      const answer = await question(channel);
      return { answer, frames: Buffer.concat(frames) };
    } finally {
      await model.close();
    }
  }
}

/** What is read from a socket from now on. */
function record(socket: Socket): Buffer[] {
  const chunks: Buffer[] = [];
  const read = socket.read.bind(socket);
  socket.read = (size?: number) => {
    const chunk = read(size) as Buffer | null;
    if (chunk !== null) chunks.push(chunk);
    return chunk;
  };
  return chunks;
}

function propertiesOf({ properties }: GetMessage): QueuedMessage['properties'] {
  const others = new Set(['contentType', 'contentEncoding', 'headers', 'clusterId', 'userId']);
  const kept = Object.entries(properties).filter(([name]) => !others.has(name));
  return Object.fromEntries(kept) as QueuedMessage['properties'];
}
