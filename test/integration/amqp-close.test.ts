import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import { useAdmin } from '../support/amqp-admin';
import { createMessages, idsOf, tally, useBrokers } from '../support/amqp-broker';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { rejection } from '../support/rejection';
import { createSilentServer } from '../support/silent-server';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const TIMEOUT_MS = 400;

describe('closing the AMQP broker', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();
  let proxy: SwitchProxy;
  beforeEach(async () => {
    proxy = await createSwitchProxy(bench.url);
  });
  afterEach(() => proxy.close());

  /** Nothing is left of it: no socket, and no timer that keeps the process. */
  async function expectNothingLeft(timersBefore: number): Promise<void> {
    await eventually(async () => {
      expect(openSockets(proxy.url)).to.equal(0);
      expect(await timers()).to.be.at.most(timersBefore);
    }, TIMEOUT_MS / 2);
  }

  it('waits for what is in flight', async () => {
    const before = await timers();
    const { broker, errors } = createBroker({ broker: proxy.url });
    const queue = bench.admin.queueName();
    const batches = Array.from({ length: 5 }, () => createMessages(2_000, { queue }));
    await broker.connect();
    const publishing = batches.map((batch) => broker.publish(batch));
    await broker.close();
    await expectNothingLeft(before);
    expect(tally((await Promise.all(publishing)).flat())).to.deep.equal({ published: 10_000 });
    expect((await bench.admin.takeIds(queue)).sort()).to.deep.equal(idsOf(batches.flat()).sort());
    expect(errors).to.deep.equal([]);
  });

  it('happens once; afterwards all is an outage', async () => {
    const { broker } = createBroker({ broker: proxy.url });
    await broker.connect();
    await Promise.all([broker.close(), broker.close()]);
    await broker.close();
    expect(tally(await broker.publish(createMessages(2, { queue: 'any' })))).to.deep.equal({ [OUTAGE]: 2 });
    await rejection(OUTAGE, broker.connect());
    expect(proxy.accepted).to.equal(1);
  });

  it('is done at once where it never connected', async () => {
    const before = await timers();
    const { broker } = createBroker({ broker: proxy.url });
    await broker.close();
    expect(tally(await broker.publish(createMessages(1, { queue: 'any' })))).to.deep.equal({ [OUTAGE]: 1 });
    expect(proxy.accepted).to.equal(0);
    await expectNothingLeft(before);
  });

  it('ends an attempt to connect, and reports nothing of it', async () => {
    const silent = await createSilentServer();
    const { broker, errors } = createBroker({ broker: `amqp://127.0.0.1:${silent.port}` });
    const publishing = broker.publish(createMessages(1, { queue: 'any' }));
    await eventually(() => {
      expect(silent.accepted).to.equal(1);
    });
    const begin = performance.now();
    await broker.close();
    expect(tally(await publishing)).to.deep.equal({ [OUTAGE]: 1 });
    expect(performance.now() - begin).to.be.below(TIMEOUT_MS);
    expect(errors).to.deep.equal([]);
    await silent.close();
  });

  for (const way of ['requests', 'replies'] as const) {
    it(`ends in time when RabbitMQ is silent (${way} held back), with messages in flight and without`, async () => {
      const before = await timers();
      const settings = { broker: proxy.url, connectTimeoutMs: TIMEOUT_MS, sendTimeoutMs: TIMEOUT_MS };
      const [busy, idle] = [createBroker(settings), createBroker(settings)];
      const queue = bench.admin.queueName();
      await Promise.all([busy, idle].map(({ broker }) => broker.publish(createMessages(1, { queue }))));
      proxy.hold(way);
      const publishing = busy.broker.publish(createMessages(100, { queue }));
      const begin = performance.now();
      await Promise.all([busy.broker.close(), idle.broker.close()]);
      expect(performance.now() - begin).to.be.below(3 * TIMEOUT_MS);
      expect(tally(await publishing)).to.deep.equal({ [OUTAGE]: 100 });
      await expectNothingLeft(before);
    });
  }

  it('is done as soon as the connection is lost', async () => {
    const { broker } = createBroker({ broker: proxy.url });
    await broker.connect();
    proxy.hold('replies');
    const begin = performance.now();
    const closing = broker.close();
    setImmediate(() => {
      proxy.cut();
    });
    await closing;
    expect(performance.now() - begin).to.be.below(TIMEOUT_MS);
  });
});

async function timers(): Promise<number> {
  // mocha starts the timer of a test when its function has returned a promise.
  await nextTurn();
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}
