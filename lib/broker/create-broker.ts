import type { CelerySettings } from '../celery-options';
import { AmqpBroker } from './amqp/amqp-broker';
import type { Broker } from './port';
import { RedisBroker } from './redis/redis-broker';

/** The broker that the URL names, or the user's own. It connects when it is first used. */
export function createBroker(settings: CelerySettings, onConnectionError: (error: unknown) => void): Broker {
  if (settings.createOwnBroker !== null) return settings.createOwnBroker();
  const Chosen = settings.broker.startsWith('redis') ? RedisBroker : AmqpBroker;
  return new Chosen(settings, onConnectionError);
}
