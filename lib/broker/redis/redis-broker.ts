import type { CelerySettings } from '../../celery-options';
import type { CeleryMessage } from '../../message/celery-message';
import { type Broker, PUBLISHED, type PublishOutcome } from '../port';
import type { Reconnector } from '../reconnector';
import { Envelope } from './envelope';
import { Exchanges } from './exchanges';
import { asOutage, type Failure, fault, reasonOf } from './failure';
import { createListKey, type ListKey } from './list-key';
import { type Push, PushPlan } from './push-plan';
import { type RedisConnection, redisConnections } from './redis-connection';
import { redisTarget } from './redis-target';

/**
 * Celery's broker in Redis, in the layout of kombu: a list for each queue and priority step, many messages in one
 * command.
 *
 * A message that goes to several queues is published when all of them have it; if only some took it, it is reported
 * as not published, and a second attempt reaches those again.
 */
export class RedisBroker implements Broker {
  readonly #connections: Reconnector<RedisConnection>;
  readonly #exchanges: Exchanges;
  readonly #listKey: ListKey;

  /** @param onConnectionError - called once for each failed attempt to connect and each loss of a connection */
  constructor(settings: CelerySettings, onConnectionError: (error: unknown) => void) {
    const target = redisTarget(settings.broker, settings.brokerOptions, settings.connectTimeoutMs);
    this.#connections = redisConnections(target, settings, onConnectionError);
    this.#exchanges = new Exchanges(settings);
    this.#listKey = createListKey(settings.transport);
  }

  async connect(): Promise<void> {
    await this.#connections.connect();
  }

  async publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    if (messages.length === 0) return [];
    try {
      return await this.#connections.use((connection) => this.#send(connection, messages));
    } catch (error) {
      return Array<PublishOutcome>(messages.length).fill(asOutage(error));
    }
  }

  close(): Promise<void> {
    return this.#connections.close();
  }

  async #send(connection: RedisConnection, messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    const outcomes = Array<PublishOutcome>(messages.length).fill(PUBLISHED);
    const routeOf = await this.#exchanges.read(connection, messages);
    const plan = new PushPlan();
    for (const [index, message] of messages.entries()) {
      const queues = routeOf(message.route);
      const failure = 'status' in queues ? queues : this.#plan(plan, message, queues, index);
      if (failure !== undefined) outcomes[index] = failure;
    }
    await Promise.all(plan.pushes.map((push) => pushAll(connection, push, outcomes)));
    return outcomes;
  }

  #plan(
    plan: PushPlan,
    message: CeleryMessage,
    queues: readonly string[],
    index: number,
  ): Failure | undefined {
    try {
      const envelope = new Envelope(message);
      for (const queue of queues) {
        plan.add(this.#listKey(queue, message.properties.priority), envelope.seal(), index);
      }
      return undefined;
    } catch (error) {
      return fault(
        'ERR_CELERY_OUTBOX_MESSAGE_INVALID',
        `Task ${message.taskId} cannot be written for Redis: ${reasonOf(error)}`,
        error,
      );
    }
  }
}

async function pushAll(connection: RedisConnection, push: Push, outcomes: PublishOutcome[]): Promise<void> {
  const { key, values, indexes } = push;
  const answer = await connection.ask(`messages for list ${JSON.stringify(key)}`, (redis) =>
    redis.lpush(key, ...values),
  );
  if (answer.status === 'answered') return;
  for (const index of indexes) {
    // A message for several queues may have both: the outage will pass, and then the fault is found again.
    if (outcomes[index]?.status !== 'outage') outcomes[index] = answer;
  }
}
