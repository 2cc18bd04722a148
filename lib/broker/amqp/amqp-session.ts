import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';
import type { CelerySettings } from '../../celery-options';
import { settledWithin, within } from '../../deadline';
import { BrokerOutage } from '../broker-error';
import { amqpOptions } from './amqp-url';
import { Channels } from './channels';
import { ConfirmLane } from './confirm-lane';
import { DelayedDelivery } from './delayed-delivery';
import { Lanes } from './lanes';
import type { Parcel } from './parcel';
import { Topology } from './topology';

const KEEP_ALIVE_MS = 30_000;

/** One connection to RabbitMQ, from opening to its end. */
export class AmqpSession {
  readonly topology: Topology;
  readonly delay: DelayedDelivery;
  readonly lanes = new Lanes(() => this.openLane());
  readonly #model: ChannelModel;
  readonly #channels: Channels;
  readonly #settings: CelerySettings;
  readonly #cut: AbortController;
  readonly #onError: (error: unknown) => void;
  #blocked: BrokerOutage | null = null;
  #ended: BrokerOutage | null = null;

  private constructor(
    model: ChannelModel,
    cut: AbortController,
    settings: CelerySettings,
    onError: (error: unknown) => void,
  ) {
    const { queues } = settings.routing;
    this.#model = model;
    this.#cut = cut;
    this.#settings = settings;
    this.#onError = onError;
    this.#channels = new Channels(model);
    this.topology = new Topology(this.#channels, queues);
    this.delay = new DelayedDelivery(this.topology, queues, onError);
    model.on('error', () => undefined);
    model.on('blocked', (reason: string) => {
      this.#blocked = new BrokerOutage(`RabbitMQ takes no messages now: ${reason}`);
      onError(this.#blocked);
    });
    model.on('unblocked', () => {
      this.#blocked = null;
    });
    model.on('close', (error?: Error) => {
      this.end(new BrokerOutage(`The connection was closed: ${error?.message ?? 'by RabbitMQ'}`, error));
    });
  }

  /** @throws BrokerOutage within the connect timeout */
  static async open(
    settings: CelerySettings,
    signal: AbortSignal,
    onError: (error: unknown) => void,
  ): Promise<AmqpSession> {
    const { broker, brokerOptions, connectTimeoutMs } = settings;
    const cut = new AbortController();
    const stop = (): void => {
      cut.abort();
    };
    signal.addEventListener('abort', stop);
    try {
      const socketOptions = {
        clientProperties: { connection_name: 'express-celery-outbox' },
        keepAliveDelay: KEEP_ALIVE_MS,
        ...brokerOptions,
        keepAlive: true,
        noDelay: true,
        signal: cut.signal,
      };
      const connecting = connect(amqpOptions(broker), socketOptions);
      const model = await within(connecting, connectTimeoutMs, () => lateConnect(connectTimeoutMs));
      return new AmqpSession(model, cut, settings, onError);
    } catch (error) {
      cut.abort();
      throw toOutage(error);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  /** Why it takes no messages: for good, or for now. */
  get outage(): BrokerOutage | null {
    return this.#ended ?? this.#blocked;
  }

  get isEnded(): boolean {
    return this.#ended !== null;
  }

  /** A lane that the caller retires. @throws BrokerOutage */
  async openLane(): Promise<ConfirmLane> {
    if (this.outage !== null) throw this.outage;
    const opening = this.#channels.openConfirmed().then((channel) => this.#createLane(channel));
    try {
      return await this.ask(() => opening);
    } catch (error) {
      // A blocked connection may answer later.
      opening.then(
        (lane) => {
          lane.retire();
        },
        () => undefined,
      );
      throw error;
    }
  }

  /**
   * The broker's answer within the send timeout; nothing is asked while it takes no messages. Without an answer the
   * connection is given up, unless it is blocked: then it is alive, and says when it takes messages again; and what
   * lies in its socket is not sent once more with every new connection.
   *
   * @throws BrokerOutage
   */
  async ask<T>(operation: () => Promise<T>): Promise<T> {
    if (this.outage !== null) throw this.outage;
    const { sendTimeoutMs } = this.#settings;
    try {
      const answer = operation();
      if (await settledWithin(answer, sendTimeoutMs)) return await answer;
    } catch (error) {
      // amqplib may not have told: a connection that is closed while it is opened emits nothing that we could hear.
      throw this.end(toOutage(error));
    }
    throw (
      this.#blocked ??
      this.end(new BrokerOutage(`RabbitMQ did not answer within ${String(sendTimeoutMs)} ms`))
    );
  }

  /** Looks again the next time where a message would go: it came back, or there was nothing to send it to. */
  forget(parcel: Parcel): void {
    this.topology.forget(parcel.message.route);
    this.delay.forget(parcel);
  }

  /** Cuts the connection; everything in flight becomes an outage. @returns why it has ended */
  end(reason: BrokerOutage): BrokerOutage {
    if (this.#ended === null) {
      this.#ended = reason;
      this.#onError(reason);
    }
    // Also one that RabbitMQ closed: with a peer that is gone, amqplib would wait for its socket to end.
    this.#cut.abort();
    return this.#ended;
  }

  async close(withinMs: number): Promise<void> {
    if (this.#ended === null) {
      this.#ended = new BrokerOutage('The connection to the broker was closed');
      // amqplib never settles the close of a connection that is lost meanwhile.
      const lost = new Promise((resolve) => this.#model.once('close', resolve));
      await settledWithin(Promise.race([this.#model.close(), lost]), withinMs);
    }
    this.#cut.abort();
  }

  #createLane(channel: ConfirmChannel): ConfirmLane {
    return new ConfirmLane(channel, {
      sendTimeoutMs: this.#settings.sendTimeoutMs,
      onReturn: (parcel) => {
        this.forget(parcel);
      },
      onStall: () => {
        if (this.#blocked === null) this.end(new BrokerOutage('RabbitMQ stopped to acknowledge messages'));
      },
    });
  }
}

function lateConnect(ms: number): BrokerOutage {
  return new BrokerOutage(`RabbitMQ did not answer within ${String(ms)} ms`);
}

// amqplib has no code for a handshake that RabbitMQ ended, only these texts: it says 403 of the user and the password, and
// nothing of the virtual host.
const REFUSED_HANDSHAKE =
  /^(Handshake terminated by server: 403|Expected ConnectionOpenOk; got <ConnectionClose)/;

function toOutage(error: unknown): BrokerOutage {
  if (error instanceof BrokerOutage) return error;
  const reason = error instanceof Error ? error.message : String(error);
  if (REFUSED_HANDSHAKE.test(reason)) {
    return new BrokerOutage(
      `RabbitMQ refused the user, the password or the virtual host: ${reason}`,
      error,
      'ERR_CELERY_OUTBOX_BROKER_ACCESS',
    );
  }
  return new BrokerOutage(`RabbitMQ cannot be reached: ${reason}`, error);
}
