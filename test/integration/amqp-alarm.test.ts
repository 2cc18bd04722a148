import { expect } from 'chai';
import { canRunPrivately } from '../services/fixtures/platforms';
import { AmqpAdmin } from '../support/amqp-admin';
import { createMessage, createMessages, idsOf, routeTo, tally, useBrokers } from '../support/amqp-broker';
import { eventually } from '../support/eventually';
import { type OwnRabbitmq, ownRabbitmq } from '../support/own-rabbitmq';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';
import { createWiredProxy } from '../support/wired-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';
const SEND_TIMEOUT_MS = 2_000;

if (canRunPrivately()) {
  describe('RabbitMQ is short of memory', function () {
    this.timeout(40_000);
    const createBroker = useBrokers();
    let rabbitmq: OwnRabbitmq;
    let admin: AmqpAdmin;
    let proxy: SwitchProxy;
    before(async () => {
      rabbitmq = await ownRabbitmq();
      proxy = await createSwitchProxy(rabbitmq.url);
      admin = await AmqpAdmin.connect(rabbitmq.url);
    });
    afterEach(() => alarm(false));
    after(async () => {
      await admin.close();
      await proxy.close();
    });

    async function alarm(isOn: boolean): Promise<void> {
      await rabbitmq.evaluate(`vm_memory_monitor:set_vm_memory_high_watermark(${isOn ? '0.00001' : '0.4'})`);
    }

    it('publishing is an outage over the same connection until it is over, then goes on', async () => {
      const { broker, errors } = createBroker({ broker: proxy.url, sendTimeoutMs: SEND_TIMEOUT_MS });
      const [queue, absent] = [await admin.queue(), admin.queueName()];
      await broker.publish(createMessages(1, { queue }));
      await alarm(true);

      const begin = performance.now();
      // More than the lane sends at once; and one call that has to ask for a queue first.
      const batch = createMessages(6_000, { queue });
      const [late, lateToo] = await Promise.all([
        broker.publish(batch),
        broker.publish(createMessages(1, { queue: absent })),
      ]);
      expect(tally([...late, ...lateToo])).to.deep.equal({ [OUTAGE]: 6_001 });
      expect(performance.now() - begin).to.be.within(SEND_TIMEOUT_MS - 50, 3 * SEND_TIMEOUT_MS);
      const isAboutMemory = (error: unknown): boolean => /memory/.test((error as Error).message);
      expect(errors).to.have.lengthOf.above(0);

      const later = performance.now();
      for (let call = 0; call < 100; call++)
        expect(tally(await broker.publish(createMessages(1, { queue })))).to.deep.equal({ [OUTAGE]: 1 });
      expect(performance.now() - later).to.be.below(SEND_TIMEOUT_MS);
      expect(errors).to.satisfy((all: unknown[]) => all.every(isAboutMemory));
      expect(proxy.accepted).to.equal(1);

      // What lay in the socket comes first, and takes RabbitMQ seconds on a slow machine.
      await alarm(false);
      const again = createMessages(3, { queue });
      await eventually(async () => {
        expect(tally(await broker.publish(again))).to.deep.equal({ published: 3 });
      }, 15_000);
      expect(await admin.takeIds(queue)).to.include.members(idsOf(again));
    });

    it('while messages are sent again, one by one, of a closed channel: the rest is an outage in time', async () => {
      // Slow enough that they are still being sent when the alarm is on.
      const slow = await createWiredProxy(rabbitmq.url, (client, server) => {
        client.pipe(server);
        server.on('data', (data) => setTimeout(() => client.write(data), 3));
      });
      try {
        const { broker, errors } = createBroker({ broker: slow.url, sendTimeoutMs: SEND_TIMEOUT_MS });
        const { exchange } = await admin.bound('#');
        const batch = Array.from({ length: 1_000 }, (_, key) =>
          createMessage({ route: routeTo(exchange, String(key)) }),
        );
        await broker.publish(batch.slice(0, 1));
        await admin.channel.deleteExchange(exchange);

        const publishing = broker.publish(batch);
        await alarm(true);
        const begin = performance.now();
        expect(tally(await publishing)).to.have.all.keys(UNROUTABLE, OUTAGE);
        expect(performance.now() - begin).to.be.below(2 * SEND_TIMEOUT_MS);
        expect(errors).to.have.length(1);
        await broker.close();
      } finally {
        await slow.close();
      }
    });

    it('publishing to many exchanges takes no longer than to one', async () => {
      const { broker } = createBroker({ broker: rabbitmq.url, sendTimeoutMs: SEND_TIMEOUT_MS });
      const queue = await admin.queue();
      const exchanges = await Promise.all(Array.from({ length: 40 }, () => admin.exchange('fanout')));
      for (const exchange of exchanges) await admin.channel.bindQueue(queue, exchange, '');
      const batch = exchanges.map((exchange) => createMessage({ route: routeTo(exchange, '') }));
      expect(tally(await broker.publish(batch))).to.deep.equal({ published: 40 });

      await alarm(true);
      const begin = performance.now();
      expect(tally(await broker.publish(batch))).to.deep.equal({ [OUTAGE]: 40 });
      expect(performance.now() - begin).to.be.within(SEND_TIMEOUT_MS - 50, 2 * SEND_TIMEOUT_MS);
    });

    it('closing does not wait for it to be over', async () => {
      const { broker } = createBroker({ broker: rabbitmq.url, sendTimeoutMs: SEND_TIMEOUT_MS });
      const queue = await admin.queue();
      await broker.publish(createMessages(1, { queue }));
      await alarm(true);
      const publishing = broker.publish(createMessages(10, { queue }));
      const begin = performance.now();
      await broker.close();
      expect(performance.now() - begin).to.be.below(4 * SEND_TIMEOUT_MS);
      expect(tally(await publishing)).to.deep.equal({ [OUTAGE]: 10 });
    });
  });
}
