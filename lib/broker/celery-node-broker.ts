import { CeleryOutboxError } from '../errors';
import { type MessageParts, messageOfParts } from '../message/message-of-parts';
import type { CeleryBroker } from './celery-node';
import type { DirectSender } from './direct-sender';

/**
 * Our brokers where celery-node's Client expects its own: what it publishes is acknowledged, its errors reach the
 * caller, and no connection of celery-node's is ever opened.
 */
export function celeryNodeBroker(direct: DirectSender): CeleryBroker {
  return {
    isReady: () => direct.connect(),
    disconnect: () => direct.close(),
    async publish(body, exchange, routingKey, headers, properties) {
      const parts = { body, exchange, routingKey, headers, properties } as MessageParts;
      await direct.sendMessage(messageOfParts(parts));
    },
    subscribe: () =>
      Promise.reject(
        new CeleryOutboxError(
          'ERR_CELERY_OUTBOX_INVALID_TASK',
          'The outbox consumes no tasks: use a celery-node Worker',
        ),
      ),
  };
}
