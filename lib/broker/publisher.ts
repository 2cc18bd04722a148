import type { CelerySettings } from '../celery-options';
import type { CeleryMessage } from '../message/celery-message';
import { encodeMessage, type MessageSettings } from '../message/encode-message';
import type { StoredTask } from '../message/stored-task';
import { logEvent, type Logger } from '../telemetry/logger';
import { type BackendOutage, BrokerOutage, MessageFault } from './broker-error';
import { createBroker } from './create-broker';
import { nodeName } from './node-name';
import type { Broker, PublishOutcome } from './port';
import { ChordSizes, type SizeError } from './redis/chord-sizes';

/**
 * What became of a task: the outcome of its message; or an outage of the result backend, which has to know of a chord
 * before its parts are published, so that they were not.
 */
export type TaskOutcome = PublishOutcome | { readonly status: 'outage'; readonly error: BackendOutage };

/** Hands stored tasks to Celery: encodes them, tells the result backend of chords, and publishes. */
export class Publisher {
  readonly #settings: MessageSettings;
  readonly #broker: Broker;
  readonly #chordSizes: ChordSizes;

  constructor(settings: CelerySettings, logger: Logger) {
    const report = (error: unknown): void => {
      logEvent(logger, 'warn', 'celery_outbox_connection_error', { error });
    };
    this.#settings = { ...settings, origin: nodeName };
    this.#broker = createBroker(settings, report);
    this.#chordSizes = new ChordSizes(settings, report);
  }

  /** @throws BrokerOutage within the connect timeout */
  async connect(): Promise<void> {
    await this.#broker.connect();
  }

  /** As {@link Broker.publish}. */
  async publishMessages(messages: readonly CeleryMessage[]): Promise<PublishOutcome[]> {
    try {
      return await this.#broker.publish(messages);
    } catch (error) {
      const outage = new BrokerOutage(`The broker failed: ${reasonOf(error)}`, error);
      return messages.map(() => ({ status: 'outage', error: outage }));
    }
  }

  /** As {@link Broker.publish}. A task that cannot be made into a message, and a chord without its counter, fail alone. */
  async publish(tasks: readonly StoredTask[]): Promise<TaskOutcome[]> {
    const outcomes = new Array<TaskOutcome>(tasks.length);
    const plain: Ready[] = [];
    const parts: Ready[] = [];
    const now = Date.now();
    for (const [index, task] of tasks.entries()) {
      try {
        const message = encodeMessage(task, this.#settings, now);
        (isChordPart(message) ? parts : plain).push({ index, message });
      } catch (error) {
        outcomes[index] = invalid(error);
      }
    }
    // Only parts of chords wait for the result backend.
    await Promise.all([this.#send(plain, outcomes), this.#sendParts(parts, outcomes)]);
    return outcomes;
  }

  async close(): Promise<void> {
    await Promise.all([this.#broker.close(), this.#chordSizes.close()]);
  }

  async #sendParts(parts: readonly Ready[], outcomes: TaskOutcome[]): Promise<void> {
    if (parts.length === 0) return;
    const sizes = new Map(parts.flatMap(({ message }) => Object.entries(message.chordSizes)));
    const failed = await this.#chordSizes.write(sizes);
    const counted: Ready[] = [];
    for (const part of parts) {
      const error = Object.keys(part.message.chordSizes)
        .map((group) => failed.get(group))
        .find((why) => why !== undefined);
      if (error === undefined) counted.push(part);
      else outcomes[part.index] = uncounted(error);
    }
    await this.#send(counted, outcomes);
  }

  async #send(ready: readonly Ready[], outcomes: TaskOutcome[]): Promise<void> {
    if (ready.length === 0) return;
    const results = await this.publishMessages(ready.map(({ message }) => message));
    for (const [at, { index }] of ready.entries()) outcomes[index] = results[at] ?? NO_OUTCOME;
  }
}

interface Ready {
  readonly index: number;
  readonly message: CeleryMessage;
}

// A broker of the user's own may break its promise.
const NO_OUTCOME: PublishOutcome = {
  status: 'outage',
  error: new BrokerOutage('The broker gave no outcome for the message'),
};

function isChordPart({ chordSizes }: CeleryMessage): boolean {
  return Object.keys(chordSizes).length > 0;
}

function uncounted(error: SizeError): TaskOutcome {
  return error instanceof MessageFault ? { status: 'fault', error } : { status: 'outage', error };
}

function invalid(error: unknown): PublishOutcome {
  const reason = reasonOf(error);
  const fault = new MessageFault(
    'ERR_CELERY_OUTBOX_MESSAGE_INVALID',
    `The stored task cannot be sent: ${reason}`,
    error,
  );
  return { status: 'fault', error: fault };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
