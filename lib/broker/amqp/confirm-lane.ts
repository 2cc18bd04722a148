import { type ConfirmChannel, IllegalOperationError, type Message } from 'amqplib';
import { PUBLISHED } from '../port';
import { type ChannelError, isChannelError } from './channel-error';
import { type LaneOutcome, late, lost, nacked, unencodable, unroutable } from './lane-outcome';
import { lighter, type Parcel } from './parcel';

/** How many messages of a lane may wait for their acknowledgement. */
export const MAX_UNCONFIRMED = 5_000;
/** How many bytes of them. More would wait for the network with their time running. */
const MAX_UNCONFIRMED_BYTES = 4 * 1024 * 1024;

interface Entry {
  readonly parcel: Parcel;
  readonly settle: (outcome: LaneOutcome) => void;
  /** When it began to wait: for its turn, and from when it is written for its acknowledgement. */
  waitsSince: number;
  isReturned: boolean;
}

export interface LaneSettings {
  readonly sendTimeoutMs: number;
  /** Told of a message that came back as unroutable. */
  readonly onReturn: (parcel: Parcel) => void;
  /** Told that nothing at all was acknowledged within the send timeout. */
  readonly onStall: () => void;
}

/** One confirm channel, from opening to closing: messages go out in order, many unconfirmed at a time. */
export class ConfirmLane {
  readonly #channel: ConfirmChannel;
  readonly #settings: LaneSettings;
  /** Not yet written, in order. */
  readonly #waiting: Entry[] = [];
  /** Written and unconfirmed, in order. */
  readonly #unconfirmed = new Set<Entry>();
  #unconfirmedBytes = 0;
  #isWritable = true;
  #isRetired = false;
  #isClosed = false;
  #error: ChannelError | null = null;
  #lastConfirmAt = -Infinity;
  #deadline: NodeJS.Timeout | undefined;

  constructor(channel: ConfirmChannel, settings: LaneSettings) {
    this.#channel = channel;
    this.#settings = settings;
    channel.on('drain', () => {
      this.#isWritable = true;
      this.#pump();
    });
    channel.on('return', (message: Message) => {
      this.#returned(message);
    });
    channel.on('error', (error: Error) => {
      if (isChannelError(error)) this.#error = error;
    });
    // Before amqplib's own listener, which tells every unconfirmed message that it failed.
    channel.prependListener('close', () => {
      this.#isClosed = true;
      this.#end();
    });
  }

  /** Whether it takes messages. */
  get isOpen(): boolean {
    return !this.#isClosed && !this.#isRetired;
  }

  get isIdle(): boolean {
    return this.#waiting.length === 0 && this.#unconfirmed.size === 0;
  }

  /** Never rejects. Settles when every message has its outcome. */
  publish(parcels: readonly Parcel[]): Promise<LaneOutcome[]> {
    return new Promise((resolve) => {
      const outcomes = new Array<LaneOutcome>(parcels.length);
      let missing = parcels.length;
      if (missing === 0) resolve(outcomes);
      const waitsSince = performance.now();
      parcels.forEach((parcel, index) => {
        const settle = (outcome: LaneOutcome): void => {
          outcomes[index] = outcome;
          if (--missing === 0) resolve(outcomes);
        };
        this.#waiting.push({ parcel, settle, waitsSince, isReturned: false });
      });
      if (this.#isClosed) this.#end();
      else this.#pump();
    });
  }

  /** Lets no more messages in, and ends the channel when those that are have their outcome. */
  retire(): void {
    this.#isRetired = true;
    if (!this.isIdle || this.#isClosed) return;
    clearTimeout(this.#deadline);
    this.#isClosed = true;
    this.#channel.close().catch(() => undefined);
  }

  #pump(): void {
    let written = 0;
    while (this.#hasRoom) {
      const entry = this.#waiting[written];
      if (entry === undefined) break;
      written++;
      this.#write(entry);
    }
    if (written > 0) this.#waiting.splice(0, written);
    if (!this.#isClosed) this.#watch();
  }

  get #hasRoom(): boolean {
    const isFull =
      this.#unconfirmed.size >= MAX_UNCONFIRMED || this.#unconfirmedBytes >= MAX_UNCONFIRMED_BYTES;
    return this.#isWritable && !isFull && !this.#isClosed;
  }

  #write(entry: Entry): void {
    entry.waitsSince = performance.now();
    this.#unconfirmed.add(entry);
    this.#unconfirmedBytes += entry.parcel.body.length;
    try {
      this.#isWritable = this.#send(entry, entry.parcel);
    } catch (error) {
      // amqplib encodes before it writes: nothing of this message was sent.
      this.#settle(entry, error instanceof IllegalOperationError ? lost() : unencodable(error));
    }
  }

  #send(entry: Entry, parcel: Parcel): boolean {
    const { exchange, routingKey, body, options } = parcel;
    try {
      return this.#channel.publish(exchange, routingKey, body, options, (error: unknown) => {
        this.#confirmed(entry, error);
      });
    } catch (error) {
      const smaller = error instanceof RangeError ? lighter(parcel) : null;
      if (smaller === null) throw error;
      return this.#send(entry, smaller);
    }
  }

  #confirmed(entry: Entry, error: unknown): void {
    if (this.#isClosed) return;
    this.#lastConfirmAt = performance.now();
    if (error !== null) this.#settle(entry, nacked(entry.parcel));
    else this.#settle(entry, entry.isReturned ? unroutable(entry.parcel) : PUBLISHED);
    if (this.#waiting.length > 0) this.#pump();
    if (this.#isRetired) this.retire();
  }

  #settle(entry: Entry, outcome: LaneOutcome): void {
    // Not there any more: it was given up before.
    if (!this.#unconfirmed.delete(entry)) return;
    this.#unconfirmedBytes -= entry.parcel.body.length;
    entry.settle(outcome);
  }

  // The broker returns a message before it acknowledges it, but without its delivery tag. Of two with the same id and
  // route, both are taken as returned: one of them may then be sent twice, but none is lost.
  #returned({ fields, properties }: Message): void {
    const taskId: unknown = (properties.headers as Record<string, unknown> | undefined)?.['id'];
    for (const entry of this.#unconfirmed) {
      const { exchange, routingKey, options } = entry.parcel;
      if (entry.isReturned || routingKey !== fields.routingKey || exchange !== fields.exchange) continue;
      if (options.correlationId !== properties.correlationId) continue;
      if ((options.headers as Record<string, unknown>)['id'] !== taskId) continue;
      entry.isReturned = true;
      this.#settings.onReturn(entry.parcel);
    }
  }

  /** Since when nothing has happened that those who wait for their turn could wait for. */
  get #idlesSince(): number {
    const [first] = this.#waiting;
    if (first === undefined || this.#unconfirmed.size > 0) return Infinity;
    return Math.max(first.waitsSince, this.#lastConfirmAt);
  }

  #watch(): void {
    if (this.#deadline !== undefined || this.isIdle) return;
    const [oldest] = this.#unconfirmed;
    const left = (oldest?.waitsSince ?? this.#idlesSince) + this.#settings.sendTimeoutMs - performance.now();
    this.#deadline = setTimeout(
      () => {
        this.#deadline = undefined;
        this.#expire();
        this.#pump();
        if (this.#isRetired) this.retire();
      },
      Math.max(1, left),
    );
  }

  /**
   * Gives up what has waited too long. If nothing was acknowledged since it was written, neither will the rest be.
   *
   * A lane that gave something up takes nothing more: until its channel ends, amqplib and the broker keep what belongs
   * to those messages, and for a queue that never acknowledges it would be more with every attempt.
   */
  #expire(): void {
    const { sendTimeoutMs, onStall } = this.#settings;
    const before = performance.now() - sendTimeoutMs;
    let isStalled = this.#idlesSince <= before;
    for (const entry of this.#unconfirmed) {
      if (entry.waitsSince > before) break;
      isStalled ||= this.#lastConfirmAt < entry.waitsSince;
      this.#isRetired = true;
      this.#settle(entry, late(sendTimeoutMs));
    }
    if (!isStalled) return;
    this.#isRetired = true;
    for (const entry of this.#unconfirmed) this.#settle(entry, late(sendTimeoutMs));
    for (const entry of this.#waiting.splice(0)) entry.settle(late(sendTimeoutMs));
    onStall();
  }

  #end(): void {
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
    const error = this.#error;
    const outcome: LaneOutcome = error === null ? lost() : { status: 'orphaned', error };
    for (const entry of this.#unconfirmed) this.#settle(entry, outcome);
    for (const entry of this.#waiting.splice(0)) entry.settle(outcome);
  }
}
