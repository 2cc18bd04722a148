import { BrokerOutage, MessageFault } from '../broker-error';
import type { PublishOutcome } from '../port';
import type { ChannelError } from './channel-error';
import { type Parcel, placeOf } from './parcel';

/**
 * What a lane knows of a message: its outcome; or that the broker closed the channel before it was acknowledged,
 * because of it or of another one. Whether the broker has it is unknown then.
 */
export type LaneOutcome = PublishOutcome | { readonly status: 'orphaned'; readonly error: ChannelError };

export function lost(): PublishOutcome {
  const error = new BrokerOutage('The connection to the broker was lost before it acknowledged the message');
  return { status: 'outage', error };
}

export function late(ms: number): PublishOutcome {
  const error = new BrokerOutage(`The broker did not acknowledge the message within ${String(ms)} ms`);
  return { status: 'outage', error };
}

export function unroutable(parcel: Parcel): PublishOutcome {
  const message = `No queue takes messages ${placeOf(parcel)}`;
  return { status: 'fault', error: new MessageFault('ERR_CELERY_OUTBOX_UNROUTABLE', message) };
}

export function nacked(parcel: Parcel): PublishOutcome {
  const message = `The broker refused the message ${placeOf(parcel)}: is the queue full?`;
  return { status: 'fault', error: new MessageFault('ERR_CELERY_OUTBOX_MESSAGE_REFUSED', message) };
}

export function unencodable(error: unknown): PublishOutcome {
  return { status: 'fault', error: invalid(error) };
}

/** For what amqplib cannot write, such as a name of more than 255 bytes. */
export function invalid(error: unknown): MessageFault {
  const reason = error instanceof Error ? error.message : String(error);
  return new MessageFault('ERR_CELERY_OUTBOX_MESSAGE_INVALID', `AMQP cannot carry it: ${reason}`, error);
}
