import type { Channel } from 'amqplib';
import type { CeleryMessage } from '../../message/celery-message';
import { isChannelError, NOT_FOUND } from './channel-error';
import type { Detour, Parcel } from './parcel';
import { configured, type Queues, type Topology } from './topology';

/** Delays have as many bits as there are levels: level n holds a message for 2^n seconds. */
const LEVELS = 28;
const MAX_DELAY_SECONDS = 2 ** LEVELS - 1;
const DELIVERY_EXCHANGE = 'celery_delayed_delivery';
const FIRST_EXCHANGE = levelName(LEVELS - 1);

/**
 * Celery's native delayed delivery, for tasks with an eta to quorum queues: RabbitMQ holds them in a cascade of delay
 * queues. Sent straight to a quorum queue they would fill the worker's prefetch window and block it.
 *
 * As in Celery the queue has to be configured as a quorum queue with an exchange that is not direct. Unlike it, the
 * way is made sure before the first message, for at its end an unknown key is lost without a word; and where it cannot
 * be made, the message goes straight to the queue.
 */
export class DelayedDelivery {
  readonly #topology: Topology;
  readonly #queues: Queues;
  readonly #onUnavailable: (error: Error) => void;
  readonly #ways = new Map<string, Promise<boolean>>();
  #isBroken = false;

  constructor(topology: Topology, queues: Queues, onUnavailable: (error: Error) => void) {
    this.#topology = topology;
    this.#queues = queues;
    this.#onUnavailable = onUnavailable;
  }

  /** The way round for a message, or null if it goes straight. @throws if the connection is lost */
  async detour({ etaMs, route }: CeleryMessage, now: number): Promise<Detour | null> {
    const { queue } = route;
    const seconds = etaMs === null ? 0 : Math.floor((etaMs - now) / 1000);
    if (queue === null || seconds < 1 || !this.#isDelayable(queue, route.routingKey)) return null;
    const way = this.#ways.get(queue) ?? this.#open(route.exchange, queue, route.routingKey);
    this.#ways.set(queue, way);
    if (!(await way)) return null;
    const delay = Math.min(seconds, MAX_DELAY_SECONDS);
    const bits = Array.from(delay.toString(2).padStart(LEVELS, '0')).join('.');
    return {
      exchange: FIRST_EXCHANGE,
      routingKey: `${bits}.${route.routingKey}`,
      delayMs: delay * 1000,
    };
  }

  /** Makes sure of the way again the next time: a message came back, or its exchange is gone. */
  forget({ exchange, message }: Parcel): void {
    if (message.route.queue !== null) this.#ways.delete(message.route.queue);
    if (exchange === FIRST_EXCHANGE) this.#isBroken = true;
  }

  #isDelayable(queue: string, key: string): boolean {
    const { type, exchangeType = 'direct', routingKey = queue } = configured(this.#queues, queue);
    return type === 'quorum' && exchangeType === 'topic' && key === routingKey;
  }

  async #open(exchange: string, queue: string, routingKey: string): Promise<boolean> {
    try {
      await this.#ensureLevels();
      await this.#topology.run(async (channel) => {
        await channel.bindExchange(exchange, DELIVERY_EXCHANGE, `#.${routingKey}`);
        await channel.bindQueue(queue, exchange, `#.${routingKey}`);
      });
      return true;
    } catch (error) {
      if (!isChannelError(error)) throw error;
      this.#onUnavailable(error);
      return false;
    }
  }

  async #ensureLevels(): Promise<void> {
    if (!this.#isBroken && (await this.#hasLevels())) return;
    await this.#topology.run(declareLevels);
    this.#isBroken = false;
  }

  async #hasLevels(): Promise<boolean> {
    try {
      await this.#topology.run((channel) => channel.checkExchange(FIRST_EXCHANGE));
      return true;
    } catch (error) {
      if (!isChannelError(error) || error.code !== NOT_FOUND) throw error;
      return false;
    }
  }
}

/** The same as a worker of Celery >= 5.5 declares. */
async function declareLevels(channel: Channel): Promise<void> {
  await channel.assertExchange(DELIVERY_EXCHANGE, 'topic', { durable: true });
  for (let level = 0; level < LEVELS; level++) {
    const name = levelName(level);
    const next = level === 0 ? DELIVERY_EXCHANGE : levelName(level - 1);
    const prefix = '*.'.repeat(LEVELS - 1 - level);
    await channel.assertExchange(name, 'topic', { durable: true });
    await channel.assertQueue(name, {
      durable: true,
      arguments: {
        'x-queue-type': 'quorum',
        'x-overflow': 'reject-publish',
        'x-dead-letter-strategy': 'at-least-once',
        'x-dead-letter-exchange': next,
        'x-message-ttl': 2 ** level * 1000,
      },
    });
    await channel.bindQueue(name, name, `${prefix}1.#`);
    await channel.bindExchange(next, name, `${prefix}0.#`);
  }
}

function levelName(level: number): string {
  return `celery_delayed_${String(level)}`;
}
