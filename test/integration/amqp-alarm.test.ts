import { expect } from 'chai';
import { canRunPrivately } from '../services/fixtures/platforms';
import { AmqpAdmin } from '../support/amqp-admin';
import { createMessages, idsOf, tally, useBrokers } from '../support/amqp-broker';
import { eventually } from '../support/eventually';
import { type OwnRabbitmq, ownRabbitmq } from '../support/own-rabbitmq';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
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
