import type { Channel } from 'amqplib';
import type { CeleryMessage, Route } from '../../message/celery-message';
import { MessageFault } from '../broker-error';
import { isChannelError, NOT_FOUND } from './channel-error';
import { invalid } from './lane-outcome';
import type { Detour, Parcel } from './parcel';
import { configured, isUnwritable, keyOf, type Queues, type Topology } from './topology';

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
 * end of the way is made sure before every call's messages, for a message that finds no queue there does not come back;
 * and where we may not make the way, the message goes straight to the queue.
 */
export class DelayedDelivery {
  readonly #topology: Topology;
  readonly #queues: Queues;
  readonly #onUnavailable: (error: Error) => void;
  /** Routes whose way the broker does not let us make. */
  readonly #closed = new Set<string>();
  #levels: Promise<void> | null = null;
  #isBroken = false;

  constructor(topology: Topology, queues: Queues, onUnavailable: (error: Error) => void) {
    this.#topology = topology;
    this.#queues = queues;
    this.#onUnavailable = onUnavailable;
  }

  /** For how many seconds the broker is to hold a message; 0 if it goes straight. */
  secondsOf({ etaMs, route }: CeleryMessage, now: number): number {
    const seconds = etaMs === null ? 0 : Math.floor((etaMs - now) / 1000);
    return seconds >= 1 && this.#isDelayable(route) ? Math.min(seconds, MAX_DELAY_SECONDS) : 0;
  }

  /**
   * Makes sure of the way to a route's queue, with two bindings if the rest of it was seen before; a queue that is
   * gone is declared again. It holds for now: what is removed while the broker holds a message, nobody sees.
   *
   * @returns whether there is a way, or why messages that take it would not arrive
   * @throws if the connection is lost
   */
  async open(route: Route): Promise<boolean | MessageFault> {
    if (this.#closed.has(keyOf(route))) return false;
    try {
      await this.#ensureLevels();
      return (await this.#bind(route)) || (await this.#restore(route));
    } catch (error) {
      if (isUnwritable(error)) return invalid(error);
      if (!isChannelError(error)) throw error;
      this.#closed.add(keyOf(route));
      this.#onUnavailable(error);
      return false;
    }
  }

  /** Makes sure of all of the way the next time: a message came back, or its exchange is gone. */
  forget({ exchange, message }: Parcel): void {
    this.#closed.delete(keyOf(message.route));
    if (exchange !== FIRST_EXCHANGE) return;
    this.#isBroken = true;
    this.#levels = null;
  }

  #isDelayable({ queue, routingKey: key }: Route): boolean {
    if (queue === null) return false;
    const { type, exchangeType = 'direct', routingKey = queue } = configured(this.#queues, queue);
    return type === 'quorum' && exchangeType === 'topic' && key === routingKey;
  }

  /** Both bindings are there already, most of the time. @returns false if what they join is gone */
  async #bind({ exchange, queue, routingKey }: Route): Promise<boolean> {
    try {
      await this.#topology.run(async (channel) => {
        await channel.bindExchange(exchange, DELIVERY_EXCHANGE, `#.${routingKey}`);
        await channel.bindQueue(queue as string, exchange, `#.${routingKey}`);
      });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  async #restore(route: Route): Promise<true | MessageFault> {
    this.#topology.forget(route);
    const fault = await this.#topology.ensure(route);
    if (fault !== null) return fault;
    this.#levels = null;
    await this.#ensureLevels();
    if (await this.#bind(route)) return true;
    const message = `Queue ${JSON.stringify(route.queue)} or the way to it is gone`;
    return new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', message);
  }

  async #ensureLevels(): Promise<void> {
    const levels = (this.#levels ??= this.#lookForLevels());
    try {
      await levels;
    } catch (error) {
      if (this.#levels === levels) this.#levels = null;
      throw error;
    }
  }

  async #lookForLevels(): Promise<void> {
    if (!this.#isBroken && (await this.#hasLevels())) return;
    await this.#topology.run(declareLevels);
    this.#isBroken = false;
  }

  async #hasLevels(): Promise<boolean> {
    try {
      await this.#topology.run(async (channel) => {
        await channel.checkExchange(FIRST_EXCHANGE);
        await channel.checkExchange(DELIVERY_EXCHANGE);
      });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }
}

/** The way through the levels that hold a message for so many seconds. */
export function detourOf({ routingKey }: Route, seconds: number): Detour {
  const bits = Array.from(seconds.toString(2).padStart(LEVELS, '0')).join('.');
  return { exchange: FIRST_EXCHANGE, routingKey: `${bits}.${routingKey}`, delayMs: seconds * 1000 };
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

function isNotFound(error: unknown): boolean {
  return isChannelError(error) && error.code === NOT_FOUND;
}
