import type { CeleryMessage } from '../message/celery-message';
import type { BrokerOutage, MessageFault } from './broker-error';

/**
 * What became of one message.
 *
 * - `published`: the broker acknowledged it; it is in every queue it is routed to.
 * - `fault`: this message was not taken, and will not be while it and the broker's topology stay as they are.
 * - `outage`: the broker could not be asked, or did not answer. It may or may not have taken the message.
 */
export type PublishOutcome =
  | { readonly status: 'published' }
  | { readonly status: 'fault'; readonly error: MessageFault }
  | { readonly status: 'outage'; readonly error: BrokerOutage };

export const PUBLISHED: PublishOutcome = Object.freeze({ status: 'published' });

/**
 * A broker that Celery workers consume from.
 *
 * It connects when it is first needed and again after a loss, with a back-off. It holds no message back for later:
 * what cannot be handed over now is reported as an outage.
 */
export interface Broker {
  /**
   * Hands messages over, those to one queue in the order given. Several calls may be in flight.
   *
   * @returns for each message its outcome, in the order given. Never rejects, and settles within the send timeout of
   * the last message's turn.
   */
  publish(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]>;

  /** Connects, if it is not connected. @throws BrokerOutage within the connect timeout */
  connect(): Promise<void>;

  /**
   * Ends the connection after what is in flight has its outcome, at the latest after the send timeout. Later calls of
   * publish report an outage. Never rejects.
   */
  close(): Promise<void>;
}
