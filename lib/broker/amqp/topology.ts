import type { Channel, Options } from 'amqplib';
import type { Route } from '../../message/celery-message';
import type { QueueOptions } from '../../message/routing';
import { MessageFault } from '../broker-error';
import { ACCESS_REFUSED, isChannelError, NOT_FOUND } from './channel-error';
import type { Channels } from './channels';
import { invalid } from './lane-outcome';

/** Queues that need more than a name, by name. */
export type Queues = Readonly<Record<string, QueueOptions>>;
type Operation = (channel: Channel) => Promise<unknown>;

/**
 * What exists in the broker, as far as one connection has seen. Everything is looked at once per connection, without
 * changing it; only what is missing is declared. So a queue of other arguments than ours is used as it is.
 */
export class Topology {
  readonly #channels: Channels;
  readonly #queues: Queues;
  readonly #looking = new Map<string, Promise<MessageFault | null>>();
  readonly #there = new Set<string>();

  constructor(channels: Channels, queues: Queues) {
    this.#channels = channels;
    this.#queues = queues;
  }

  /** Whether a route was seen to lead somewhere. */
  has(route: Route): boolean {
    return this.#there.has(keyOf(route));
  }

  /**
   * Makes sure that a route leads somewhere.
   *
   * @returns why it does not; null if it does
   * @throws if the connection is lost
   */
  ensure(route: Route): Promise<MessageFault | null> {
    const key = keyOf(route);
    const looking = this.#looking.get(key) ?? this.#remember(key, this.#look(route));
    this.#looking.set(key, looking);
    return looking;
  }

  /** Looks again the next time: a message came back. */
  forget(route: Route): void {
    this.#there.delete(keyOf(route));
  }

  // Only what is there is remembered: somebody may create the rest.
  async #remember(key: string, looking: Promise<MessageFault | null>): Promise<MessageFault | null> {
    try {
      const fault = await looking;
      if (fault === null) this.#there.add(key);
      return fault;
    } finally {
      this.#looking.delete(key);
    }
  }

  /**
   * Runs an operation on a channel of its own, which a refusal closes.
   *
   * @throws a ChannelError if the broker refuses it, something else if the connection is lost
   */
  async run(operation: Operation): Promise<void> {
    const channel = await this.#channels.open();
    channel.on('error', () => undefined);
    try {
      await operation(channel);
    } finally {
      // Not awaited: amqplib never settles it when the connection is lost meanwhile.
      channel.close().catch(() => undefined);
    }
  }

  async #look({ exchange, queue }: Route): Promise<MessageFault | null> {
    // For RabbitMQ the empty name is that of a queue still to be named, a new one each time.
    if (queue === '') return new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', 'The queue has no name');
    try {
      if (exchange === '' && queue !== null) await this.#ensureQueue(queue);
      else if (queue === null) await this.run((channel) => channel.checkExchange(exchange));
      else await this.#ensureBinding(exchange, queue);
      return null;
    } catch (error) {
      if (isChannelError(error)) return toFault(error, exchange, queue);
      if (isUnwritable(error)) return invalid(error);
      throw error;
    }
  }

  async #ensureQueue(queue: string): Promise<void> {
    const options = queueOptions(configured(this.#queues, queue));
    await this.#ensure(
      (channel) => channel.checkQueue(queue),
      (channel) => channel.assertQueue(queue, options),
    );
  }

  async #ensureBinding(exchange: string, queue: string): Promise<void> {
    const { exchangeType = 'direct', routingKey = queue } = configured(this.#queues, queue);
    await this.#ensure(
      (channel) => channel.checkExchange(exchange),
      (channel) => channel.assertExchange(exchange, exchangeType, { durable: true }),
    );
    await this.#ensureQueue(queue);
    try {
      await this.run((channel) => channel.bindQueue(queue, exchange, routingKey));
    } catch (error) {
      // It may be bound already, by somebody who is allowed to; if it is not, the message comes back.
      if (!isChannelError(error) || error.code !== ACCESS_REFUSED) throw error;
    }
  }

  async #ensure(check: Operation, declare: Operation): Promise<void> {
    if (await this.#exists(check)) return;
    try {
      await this.run(declare);
    } catch (error) {
      // Somebody else may have declared it meanwhile, with other arguments.
      if (!isChannelError(error) || !(await this.#exists(check))) throw error;
    }
  }

  // Any refusal but "not found" means that it is there, or that only publishing can tell.
  async #exists(check: Operation): Promise<boolean> {
    try {
      await this.run(check);
      return true;
    } catch (error) {
      if (isChannelError(error)) return error.code !== NOT_FOUND;
      throw error;
    }
  }
}

/** What is configured of a queue, which may be called `constructor`. */
export function configured(queues: Queues, queue: string): QueueOptions {
  return Object.hasOwn(queues, queue) ? (queues[queue] as QueueOptions) : {};
}

/**
 * Whether it is of an operation that amqplib cannot write: it throws these before it writes anything; what it rejects
 * with when the connection is lost is neither.
 */
export function isUnwritable(error: unknown): boolean {
  return error instanceof RangeError || error instanceof TypeError;
}

/** Routes of one key need the same things to be there. */
export function keyOf({ exchange, queue }: Route): string {
  return `${exchange}\0${queue ?? ''}`;
}

function queueOptions({ type, maxPriority, arguments: given }: QueueOptions): Options.AssertQueue {
  return {
    durable: true,
    arguments: {
      ...(type === 'quorum' && { 'x-queue-type': 'quorum' }),
      ...(maxPriority !== undefined && { 'x-max-priority': maxPriority }),
      ...given,
    },
  };
}

function toFault(
  error: Error & { readonly code: number },
  exchange: string,
  queue: string | null,
): MessageFault {
  const what = queue === null ? `Exchange ${JSON.stringify(exchange)}` : `Queue ${JSON.stringify(queue)}`;
  if (queue === null && error.code === NOT_FOUND) {
    return new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', `${what} does not exist`, error);
  }
  const missing = queue === null ? 'cannot be used' : 'does not exist and cannot be declared';
  return new MessageFault('ERR_CELERY_OUTBOX_MESSAGE_REFUSED', `${what} ${missing}: ${error.message}`, error);
}
