import type { CelerySettings } from '../../celery-options';
import type { CeleryMessage } from '../../message/celery-message';
import { BrokerOutage } from '../broker-error';
import type { Broker, PublishOutcome } from '../port';
import { Reconnector } from '../reconnector';
import { AmqpSession } from './amqp-session';
import { publishOver } from './publish-over';

/** RabbitMQ, with a confirm for every message. */
export class AmqpBroker implements Broker {
  readonly #sessions: Reconnector<AmqpSession>;

  /** @param onConnectionError - told once of each failed attempt, each loss, and when RabbitMQ blocks us */
  constructor(settings: CelerySettings, onConnectionError: (error: unknown) => void) {
    this.#sessions = new Reconnector({
      name: 'RabbitMQ',
      open: (signal) => AmqpSession.open(settings, signal, onConnectionError),
      onFailure: onConnectionError,
      closeTimeoutMs: settings.sendTimeoutMs,
    });
  }

  async connect(): Promise<void> {
    await this.#sessions.connect();
  }

  async publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    try {
      return await this.#sessions.use((session) => publishOver(session, messages));
    } catch (error) {
      const outage = error instanceof BrokerOutage ? error : new BrokerOutage(String(error), error);
      return messages.map(() => ({ status: 'outage', error: outage }));
    }
  }

  close(): Promise<void> {
    return this.#sessions.close();
  }
}
