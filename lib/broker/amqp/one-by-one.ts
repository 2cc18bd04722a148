import { BrokerOutage, MessageFault } from '../broker-error';
import type { PublishOutcome } from '../port';
import type { AmqpSession } from './amqp-session';
import { ACCESS_REFUSED, type ChannelError, NOT_FOUND } from './channel-error';
import type { ConfirmLane } from './confirm-lane';
import type { LaneOutcome } from './lane-outcome';
import { type Parcel, placeOf } from './parcel';

/**
 * Sends messages again that were left open when the broker closed their channel, each when the one before has its
 * outcome: so it shows which of them the broker refuses.
 */
export class OneByOne {
  readonly #session: AmqpSession;
  /** A refusal of where a message goes is one for all that go there. */
  readonly #closedTo = new Map<string, PublishOutcome>();
  #lane: ConfirmLane | null = null;
  #outage: BrokerOutage | null = null;

  constructor(session: AmqpSession) {
    this.#session = session;
  }

  /** Never rejects. An outage is one for all that follow: each of them would wait for as long as the first. */
  async send(parcel: Parcel): Promise<PublishOutcome> {
    const place = `${parcel.exchange}\0${parcel.routingKey}`;
    const known = this.#closedTo.get(place);
    if (known !== undefined) return known;
    this.#outage ??= this.#session.outage;
    if (this.#outage !== null) return { status: 'outage', error: this.#outage };
    const outcome = await this.#trySend(parcel);
    if (outcome.status === 'orphaned') return this.#refuse(parcel, place, outcome.error);
    if (outcome.status === 'outage') this.#outage = outcome.error;
    return outcome;
  }

  end(): void {
    this.#lane?.retire();
  }

  async #trySend(parcel: Parcel): Promise<LaneOutcome> {
    try {
      if (this.#lane?.isOpen !== true) this.#lane = await this.#session.openLane();
      const [outcome] = (await this.#lane.publish([parcel])) as [LaneOutcome];
      return outcome;
    } catch (error) {
      if (!(error instanceof BrokerOutage)) throw error;
      return { status: 'outage', error };
    }
  }

  #refuse(parcel: Parcel, place: string, cause: ChannelError): PublishOutcome {
    const isGone = cause.code === NOT_FOUND;
    const code = isGone ? 'ERR_CELERY_OUTBOX_UNROUTABLE' : 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
    const message = `RabbitMQ refused the message ${placeOf(parcel)}: ${cause.message}`;
    const outcome: PublishOutcome = { status: 'fault', error: new MessageFault(code, message, cause) };
    if (isGone) this.#session.forget(parcel);
    if (isGone || cause.code === ACCESS_REFUSED) this.#closedTo.set(place, outcome);
    return outcome;
  }
}
