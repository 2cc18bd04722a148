import type { CelerySettings } from '../../celery-options';
import type { CeleryMessage, Route } from '../../message/celery-message';
import { BindingTable, topicPattern } from './binding-table';
import { type Failure, fault } from './failure';
import type { RedisConnection } from './redis-connection';

/** The queues that a message goes to, or why it goes to none. */
export type Router = (route: Route) => readonly string[] | Failure;

/** Does what an AMQP broker would do: finds the queues of a route, by the bindings that kombu keeps in Redis. */
export class Exchanges {
  readonly #queues: CelerySettings['routing']['queues'];
  readonly #transport: CelerySettings['transport'];

  constructor({ routing, transport }: CelerySettings) {
    this.#queues = routing.queues;
    this.#transport = transport;
  }

  /**
   * Reads the bindings of every exchange that the messages name, each once, and adds those of configured queues that
   * are missing.
   */
  async read(connection: RedisConnection, messages: readonly CeleryMessage[]): Promise<Router> {
    const named = new Map<string, Set<string>>();
    for (const { route } of messages) {
      if (route.exchange === '') continue;
      const queues = named.get(route.exchange) ?? new Set();
      if (route.queue !== null) queues.add(route.queue);
      named.set(route.exchange, queues);
    }
    if (named.size === 0) return defaultExchange;
    const reading = [...named].map(
      async ([exchange, queues]) => [exchange, await this.#read(connection, exchange, queues)] as const,
    );
    const routers = new Map(await Promise.all(reading));
    return (route) => (routers.get(route.exchange) ?? defaultExchange)(route);
  }

  async #read(connection: RedisConnection, exchange: string, queues: Iterable<string>): Promise<Router> {
    const refused = this.#refuse(exchange);
    if (refused !== undefined) return () => refused;
    const { globalKeyprefix, sep } = this.#transport;
    const key = `${globalKeyprefix}_kombu.binding.${exchange}`;
    const members = await connection.ask(`the request for ${key}`, (redis) => redis.smembers(key));
    if (members.status !== 'answered') return () => members;
    const table = new BindingTable(members.value, sep);
    const unbound = new Map<string, Failure>();
    for (const queue of queues) {
      const binding = this.#binding(queue);
      if (table.has(binding)) continue;
      const added = await connection.ask(`a binding in ${key}`, (redis) => redis.sadd(key, binding));
      if (added.status === 'answered') table.add(binding);
      else unbound.set(queue, added);
    }
    return (route) => unbound.get(route.queue ?? '') ?? boundQueues(table, route);
  }

  #binding(queue: string): string {
    const { routingKey = queue, exchangeType } = this.#queues[queue] ?? {};
    const pattern = exchangeType === 'topic' ? topicPattern(routingKey) : '';
    return [routingKey, pattern, queue].join(this.#transport.sep);
  }

  // A worker takes what goes through a fanout exchange from PUBLISH and never looks into the list, so that a message
  // there would be lost; headers exchanges kombu does not have.
  #refuse(exchange: string): Failure | undefined {
    const isRefused = Object.entries(this.#queues).some(
      ([name, queue]) =>
        (queue.exchange ?? name) === exchange &&
        (queue.exchangeType === 'fanout' || queue.exchangeType === 'headers'),
    );
    if (!isRefused) return undefined;
    return fault(
      'ERR_CELERY_OUTBOX_MESSAGE_REFUSED',
      `Redis keeps no message for exchange ${JSON.stringify(exchange)}: only direct and topic exchanges have lists`,
    );
  }
}

function defaultExchange({ routingKey }: Route): readonly string[] | Failure {
  if (routingKey !== '') return [routingKey];
  return fault(
    'ERR_CELERY_OUTBOX_UNROUTABLE',
    'The default exchange needs the name of a queue as routing key',
  );
}

function boundQueues(table: BindingTable, { exchange, routingKey }: Route): readonly string[] | Failure {
  const queues = table.queuesFor(routingKey);
  if (queues.length > 0) return queues;
  return fault(
    'ERR_CELERY_OUTBOX_UNROUTABLE',
    `No queue is bound to exchange ${JSON.stringify(exchange)} with routing key ${JSON.stringify(routingKey)}`,
  );
}
