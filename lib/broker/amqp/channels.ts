import type { Readable } from 'node:stream';
import type { Channel, ChannelModel, ConfirmChannel } from 'amqplib';

/** What amqplib does not declare: the frames of a channel on their way to the socket. */
interface Internals {
  readonly ch: number;
  readonly connection: { readonly channels: readonly ({ readonly buffer: Readable } | null)[] };
}

/**
 * Opens the channels of one connection.
 *
 * amqplib gives the number of a channel that the broker closed to the next one at once, and lets the new one overtake
 * frames that the old one still has to send, its answer to the close among them. RabbitMQ ends the connection then:
 * "second 'channel.open' seen". So a channel is opened only when the frames of all that were closed before are sent.
 */
export class Channels {
  readonly #model: ChannelModel;
  /** Of closed channels that still have frames to send, with when they are sent. */
  readonly #unsent = new Map<Readable, Promise<void>>();

  constructor(model: ChannelModel) {
    this.#model = model;
    model.once('close', () => {
      for (const buffer of this.#unsent.keys()) buffer.destroy();
    });
  }

  /** @throws if the connection is lost */
  async open(): Promise<Channel> {
    await this.#allSent();
    return this.#watch(await this.#model.createChannel());
  }

  /** One with confirms. @throws if the connection is lost */
  async openConfirmed(): Promise<ConfirmChannel> {
    await this.#allSent();
    return this.#watch(await this.#model.createConfirmChannel());
  }

  async #allSent(): Promise<void> {
    for (const sent of this.#unsent.values()) await sent;
  }

  #watch<C extends Channel>(channel: C): C {
    const { connection, ch } = channel as unknown as Internals;
    const buffer = connection.channels[ch]?.buffer;
    channel.once('close', () => {
      if (buffer === undefined || buffer.closed) return;
      const sent = new Promise<void>((resolve) => {
        buffer.once('close', () => {
          this.#unsent.delete(buffer);
          resolve();
        });
      });
      this.#unsent.set(buffer, sent);
    });
    return channel;
  }
}
