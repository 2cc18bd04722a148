import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { AmqpBroker } from '../../lib/broker/amqp/amqp-broker';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { canRunPrivately } from '../services/fixtures/platforms';
import { AmqpAdmin } from '../support/amqp-admin';
import { codesOf, createMessages, idsOf, useBrokers } from '../support/amqp-broker';
import { eventually } from '../support/eventually';
import { type OwnRabbitmq, ownRabbitmq } from '../support/own-rabbitmq';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const ACCESS = 'ERR_CELERY_OUTBOX_BROKER_ACCESS';

if (canRunPrivately()) {
  describe('RabbitMQ goes away while messages are published', function () {
    this.timeout(60_000);
    const createBroker = useBrokers();
    const queue = `restart-${randomUUID()}`;
    let rabbitmq: OwnRabbitmq;
    before(async () => {
      rabbitmq = await ownRabbitmq();
      await withAdmin(({ channel }) => channel.assertQueue(queue, { durable: true }));
      // RabbitMQ may lose a queue that was declared just before it was killed.
      await rabbitmq.evaluate('mnesia:sync_log()');
    });

    async function withAdmin<T>(work: (admin: AmqpAdmin) => Promise<T>): Promise<T> {
      const admin = await AmqpAdmin.connect(rabbitmq.url);
      try {
        return await work(admin);
      } finally {
        await admin.close();
      }
    }

    const faults: Record<string, () => Promise<unknown>> = {
      'stopped and started again': async () => {
        await rabbitmq.stop();
        await rabbitmq.start();
      },
      'killed and started again': async () => {
        await rabbitmq.kill();
        await rabbitmq.start();
      },
      'closing its connections': () =>
        rabbitmq.evaluate(
          '[rabbit_networking:close_connection(P, "test") || P <- rabbit_networking:connections()]',
        ),
    };
    for (const [what, strike] of Object.entries(faults)) {
      it(`${what}: all arrive, none is reported published that did not`, async () => {
        const { broker, errors } = createBroker({ broker: rabbitmq.url, sendTimeoutMs: 3_000 });
        const senders = Array.from({ length: 5 }, () => new Sender(broker, queue));
        const sending = senders.map((sender) => sender.run());
        await eventually(() => {
          expect(senders.every(({ sent }) => sent.size > 0)).to.equal(true);
        });
        await strike();
        for (const sender of senders) sender.finish();
        await Promise.all(sending);
        const codes = senders.flatMap((sender) => [...sender.codes]);
        const sent = senders.flatMap((sender) => [...sender.sent]);
        expect(codes).to.include(OUTAGE);
        // RabbitMQ that is going down may close a connection while it is opened, without telling why.
        expect(codes.filter((code) => !['published', OUTAGE, ACCESS].includes(code))).to.deep.equal([]);
        expect(errors).not.to.be.empty;
        const arrived = new Set(await withAdmin((admin) => admin.takeIds(queue)));
        expect(sent).to.have.length.of.at.least(5_000);
        expect(sent.filter((id) => !arrived.has(id))).to.deep.equal([]);
      });
    }
  });
}

/** Publishes a hundred messages at a time, each hundred until all of it is reported published. */
class Sender {
  readonly sent = new Set<string>();
  readonly codes = new Set<string>();
  readonly #broker: AmqpBroker;
  readonly #queue: string;
  #left = Infinity;

  constructor(broker: AmqpBroker, queue: string) {
    this.#broker = broker;
    this.#queue = queue;
  }

  async run(): Promise<void> {
    for (; this.#left > 0; this.#left -= 100) {
      let open = createMessages(100, { queue: this.#queue });
      await eventually(async () => {
        open = await this.#publish(open);
        expect(open).to.deep.equal([]);
      }, 30_000);
    }
  }

  /** Ends after a thousand more. */
  finish(): void {
    this.#left = 1_000;
  }

  async #publish(messages: CeleryMessage[]): Promise<CeleryMessage[]> {
    const codes = codesOf(await this.#broker.publish(messages));
    for (const code of codes) this.codes.add(code);
    const isSent = (index: number): boolean => codes[index] === 'published';
    for (const id of idsOf(messages.filter((_, index) => isSent(index)))) this.sent.add(id);
    return messages.filter((_, index) => !isSent(index));
  }
}
