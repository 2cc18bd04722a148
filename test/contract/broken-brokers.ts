import { setImmediate as turn } from 'node:timers/promises';
import { BrokerOutage, type CeleryMessage, PUBLISHED, type PublishOutcome } from '../../lib/testing';
import { MemoryBroker, outage, pause } from './memory-broker';
import type { MemoryBrokerClass } from './memory-harness';

type Messages = readonly CeleryMessage[];
type Outcomes = Promise<PublishOutcome[]>;

const never = (): Promise<never> => new Promise(() => undefined);

interface BrokenBroker {
  readonly broker: MemoryBrokerClass;
  /** Checks that have to notice. */
  readonly breaks: readonly string[];
}

/** Brokers that each break a promise, as real ones have done. */
export const BROKEN_BROKERS: Readonly<Record<string, BrokenBroker>> = {
  'reports messages as published before they are stored': {
    breaks: [
      'tells the truth about every message while the server goes and comes back',
      'what is published outlives the server, and every outcome while it restarts is true',
    ],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const { lives } = this.server;
        void turn().then(() => {
          if (this.server.lives === lives) super.deliver(message);
        });
        return PUBLISHED;
      }
    },
  },
  'does not wait for an acknowledgement': {
    breaks: [
      'publish() reports an outage within the send timeout if nothing is acknowledged any more',
      'close() settles calls that a silent server never acknowledges',
    ],
    broker: class extends MemoryBroker {
      protected override async transmit(messages: Messages): Outcomes {
        void super.transmit(messages);
        await turn();
        return messages.map(() => PUBLISHED);
      }
    },
  },
  'drops what is unroutable or refused': {
    breaks: ['a message to a queue that does not exist is a fault', 'a message with a bad header is a fault'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        super.deliver(message);
        return PUBLISHED;
      }
    },
  },
  'takes a bad message for an outage of all': {
    breaks: [
      'a message to a queue that does not exist fails alone: those beside it are published, and each has its own outcome',
      'a message with a bad header fails alone: those beside it are published, and each has its own outcome',
    ],
    broker: class extends MemoryBroker {
      protected override async transmit(messages: Messages): Outcomes {
        const outcomes = await super.transmit(messages);
        const isFine = outcomes.every(({ status }) => status === 'published');
        return isFine ? outcomes : messages.map(() => outage('something failed'));
      }
    },
  },
  'gives a fault the error of an outage': {
    breaks: ['a message to a queue that does not exist is a fault', 'a message with a bad header is a fault'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const outcome = super.deliver(message);
        return outcome.status === 'fault' ? { ...outcome, error: new BrokerOutage('no') } : outcome;
      }
    },
  },
  'gives the outcomes in the order in which they came': {
    breaks: [
      'a message to a queue that does not exist fails alone: those beside it are published, and each has its own outcome',
    ],
    broker: class extends MemoryBroker {
      protected override async transmit(messages: Messages): Outcomes {
        const outcomes = await super.transmit(messages);
        return outcomes.sort((one, other) => one.status.localeCompare(other.status));
      }
    },
  },
  'rejects instead of reporting an outage': {
    breaks: [
      'publish() reports an outage for every message while the server is away',
      'publish() reports an outage when the connection is lost',
    ],
    broker: class extends MemoryBroker {
      override async publish(messages: Messages): Outcomes {
        const outcomes = await super.publish(messages);
        for (const outcome of outcomes) if (outcome.status === 'outage') throw outcome.error;
        return outcomes;
      }
    },
  },
  'has errors of its own': {
    breaks: ['connect() rejects with a BrokerOutage while the server is away'],
    broker: class extends MemoryBroker {
      override async connect(): Promise<void> {
        await super.connect().catch(() => {
          throw new Error('ECONNREFUSED');
        });
      }
    },
  },
  'answers an empty call with an outcome': {
    breaks: ['publish() of no messages gives no outcomes'],
    broker: class extends MemoryBroker {
      override async publish(messages: Messages): Outcomes {
        return messages.length === 0 ? [PUBLISHED] : super.publish(messages);
      }
    },
  },
  'loses the order': {
    breaks: [
      'keeps the order of 1000 messages of one call',
      'keeps the order of each queue when a call has messages for many',
      'keeps priorities, and the order within each',
    ],
    broker: class extends MemoryBroker {
      protected override async transmit(messages: Messages): Outcomes {
        return (await super.transmit(messages.toReversed())).reverse();
      }
    },
  },
  'lets a later call overtake': {
    breaks: ['keeps the order of one call after another'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const { routingKey } = message.route;
        const older = this.server.take(routingKey);
        const outcome = super.deliver(message);
        for (const { headers, properties, body } of older) {
          this.server.store({ ...message, headers, properties, body });
        }
        return outcome;
      }
    },
  },
  'sends everything twice': {
    breaks: ['takes many calls at once, the first while it connects, and keeps the order of each'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        super.deliver(message);
        return super.deliver(message);
      }
    },
  },
  'takes a task id only once': {
    breaks: ['publishes a task id as often as it is given'],
    broker: class extends MemoryBroker {
      readonly #seen = new Set<string>();
      protected override deliver(message: CeleryMessage): PublishOutcome {
        if (this.#seen.has(message.taskId)) return PUBLISHED;
        this.#seen.add(message.taskId);
        return super.deliver(message);
      }
    },
  },
  'alters the body': {
    breaks: ['delivers a compressed body unaltered'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        return super.deliver({ ...message, body: Buffer.from(message.body.toString()) });
      }
    },
  },
  'writes headers as JSON.stringify does': {
    breaks: ['delivers integers that a number cannot hold unaltered'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const text = JSON.stringify(message.headers, (_, value: unknown) =>
          typeof value === 'bigint' ? Number(value) : value,
        );
        return super.deliver({ ...message, headers: JSON.parse(text) as CeleryMessage['headers'] });
      }
    },
  },
  'forgets most of the message': {
    breaks: [
      'delivers a task without arguments unaltered',
      'delivers text of any script unaltered',
      'delivers a body of a megabyte unaltered',
      'delivers every kind of number unaltered',
      'delivers nested headers unaltered',
      'delivers every property unaltered',
      'delivers a transient message unaltered',
    ],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const { id = null, bad = null } = message.headers;
        const { correlationId } = message.properties;
        return super.deliver({
          ...message,
          headers: { id, bad },
          properties: { correlationId, deliveryMode: 2, priority: 0 },
          body: Buffer.from('[]'),
        });
      }
    },
  },
  'marks the messages that it has sent': {
    breaks: ['leaves the messages that it is given as they are, so that they can be published again'],
    broker: class extends MemoryBroker {
      protected override deliver(message: CeleryMessage): PublishOutcome {
        const outcome = super.deliver(message);
        message.body.fill(0);
        return outcome;
      }
    },
  },
  'keeps what it cannot send, and sends it later': {
    breaks: [
      'holds nothing back: what was an outage while the server was away is not sent later',
      'goes on by itself after a silence, and does not send later what was an outage in it',
    ],
    broker: class extends MemoryBroker {
      readonly #kept: CeleryMessage[] = [];
      protected override async send(messages: Messages): Outcomes {
        const outcomes = await super.send(messages);
        const isOut = outcomes.some(({ status }) => status === 'outage');
        if (isOut) this.#kept.push(...messages);
        else for (const message of this.#kept.splice(0)) super.deliver(message);
        return outcomes;
      }
    },
  },
  'never connects again': {
    breaks: [
      'goes on by itself when the server is back',
      'tells the truth about every message while the server goes and comes back',
    ],
    broker: class extends MemoryBroker {
      protected override async open(): Promise<void> {
        if (this.connection === undefined) await super.open();
      }
    },
  },
  'connects only once': {
    breaks: ['connect() resolves when the server is there, also when it is connected'],
    broker: class extends MemoryBroker {
      override async connect(): Promise<void> {
        if (this.isConnected) throw new Error('already connected');
        await super.connect();
      }
      protected override async send(messages: Messages): Outcomes {
        return this.isConnected ? this.transmit(messages) : super.send(messages);
      }
    },
  },
  'waits for ever': {
    breaks: [
      'connect() rejects within the connect timeout if the server accepts and never answers',
      'publish() reports an outage within the connect timeout if the server accepts and never answers',
    ],
    broker: class extends MemoryBroker {
      protected override async wait(): Promise<void> {
        await never();
      }
      protected override async transmit(messages: Messages): Outcomes {
        return this.server.isSilent ? never() : super.transmit(messages);
      }
    },
  },
  'publishes after close()': {
    breaks: ['after close(), publish() reports an outage and connect() rejects'],
    broker: class extends MemoryBroker {
      override async connect(): Promise<void> {
        if (!this.isConnected) await this.open();
      }
    },
  },
  'fails to close twice': {
    breaks: ['close() can be called twice, at once and later, and on a broker that was never used'],
    broker: class extends MemoryBroker {
      override async close(): Promise<void> {
        if (this.closing.signal.aborted) throw new Error('closed already');
        await super.close();
      }
    },
  },
  'drops the calls in flight when it is closed': {
    breaks: ['close() lets the calls in flight end first'],
    broker: class extends MemoryBroker {
      override async close(): Promise<void> {
        this.disconnect();
        await super.close();
      }
    },
  },
  'never settles the calls in flight when it is closed': {
    breaks: ['close() while it connects settles every call, with its true outcome'],
    broker: class extends MemoryBroker {
      override async publish(messages: Messages): Outcomes {
        const outcomes = await super.publish(messages);
        return this.closing.signal.aborted && messages.length > 0 ? never() : outcomes;
      }
      override async close(): Promise<void> {
        this.closing.abort();
        this.disconnect();
        return Promise.resolve();
      }
    },
  },
  'says goodbye and waits for an answer': {
    breaks: [
      'close() resolves while the server is away',
      'close() resolves within the send timeout although the server is silent',
      'close() does not wait for an attempt to connect',
    ],
    broker: class extends MemoryBroker {
      override async close(): Promise<void> {
        if (this.server.isAway || this.server.isSilent) await pause(this.timeouts.connectTimeoutMs);
        await super.close();
      }
    },
  },
  'connects when it is created': {
    breaks: ['connects when it is first needed, and then uses what it has'],
    broker: class extends MemoryBroker {
      constructor(...args: ConstructorParameters<typeof MemoryBroker>) {
        super(...args);
        this.connection = {};
        this.server.connections.add(this.connection);
      }
    },
  },
  'leaves its connections open': {
    breaks: [
      'leaves no connection behind when it is closed',
      'leaves no connection behind when the server never answers',
    ],
    broker: class extends MemoryBroker {
      protected override disconnect(): void {
        this.connection = undefined;
      }
    },
  },
  'opens one connection more after each loss': {
    breaks: ['leaves no connection behind when one is lost'],
    broker: class extends MemoryBroker {
      protected override async open(): Promise<void> {
        if (this.connection !== undefined && !this.server.isAway) this.server.connections.add({});
        await super.open();
      }
    },
  },
};
