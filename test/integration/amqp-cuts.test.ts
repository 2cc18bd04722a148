import { expect } from 'chai';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { useAdmin } from '../support/amqp-admin';
import { codesOf, createMessages, idsOf, routeTo, tally, useBrokers } from '../support/amqp-broker';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { createRandom } from '../support/random';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';
import { CLOSE_FRAME, createWiredProxy, pipeSlowly, pipeUpTo } from '../support/wired-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';
/** The method channel.close. */
const CHANNEL_CLOSE = Buffer.from([0, 20, 0, 40]);
const SEED = Number(process.env['SEED'] ?? 20_260_801);

describe('the way to RabbitMQ breaks while messages are published', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();

  it(`cut at random points: every outcome is true (seed ${SEED})`, async () => {
    const random = createRandom(SEED);
    let connections = 0;
    const proxy = await createWiredProxy(bench.url, (client, server) => {
      connections += 1;
      // A third of them within the handshake and the first declarations.
      const [requests, replies] = random() < 0.33 ? [1_200, 1_200] : [120_000, 20_000];
      pipeUpTo(1 + random() * requests, client, server);
      pipeUpTo(1 + random() * replies, server, client);
    });
    const { broker } = createBroker({ broker: proxy.url, connectTimeoutMs: 1_000, sendTimeoutMs: 1_000 });
    const { exchange, queue } = await bench.admin.bound('good');
    const direct = await bench.admin.queue();
    const kinds = [
      { queue: direct },
      { route: routeTo(exchange, 'good') },
      { route: routeTo(exchange, 'bad') },
    ];
    const counts = [950, 950, 100];
    const messages = kinds.flatMap((parts, index) => createMessages(counts[index]!, parts));
    const [published, unroutable] = [new Set<string>(), new Set<string>()];
    const publish = async (open: CeleryMessage[]): Promise<CeleryMessage[]> => {
      const codes = codesOf(await broker.publish(open));
      for (const [index, { taskId }] of open.entries()) {
        if (codes[index] === 'published') published.add(taskId);
        else if (codes[index] === UNROUTABLE) unroutable.add(taskId);
      }
      return open.filter((_, index) => codes[index] === OUTAGE);
    };
    const send = async (queued: CeleryMessage[]): Promise<void> => {
      while (queued.length > 0) {
        let open = queued.splice(0, 50);
        await eventually(async () => {
          open = await publish(open);
          expect(open).to.deep.equal([]);
        }, 15_000);
      }
    };
    try {
      // All kinds in each call, three calls at a time.
      const mixed = messages.map((message, index) => ({ message, at: (index * 7) % 2000 }));
      const queued = mixed.sort((a, b) => a.at - b.at).map(({ message }) => message);
      await Promise.all([send(queued), send(queued), send(queued)]);
    } finally {
      await broker.close();
      await proxy.close();
    }
    expect(connections).to.be.above(5);
    expect([...unroutable].sort()).to.deep.equal(idsOf(messages.slice(-100)).sort());
    expect([...published].sort()).to.deep.equal(idsOf(messages.slice(0, -100)).sort());
    const arrived = new Set([...(await bench.admin.takeIds(queue)), ...(await bench.admin.takeIds(direct))]);
    expect([...published].filter((id) => !arrived.has(id))).to.deep.equal([]);
  });

  describe('silently', () => {
    const SEND_TIMEOUT_MS = 400;
    let proxy: SwitchProxy;
    beforeEach(async () => {
      proxy = await createSwitchProxy(bench.url);
    });
    afterEach(() => proxy.close());

    for (const way of ['requests', 'replies'] as const) {
      it(`with all ${way} held back: an outage in time, then a new connection`, async () => {
        const { broker, errors } = createBroker({ broker: proxy.url, sendTimeoutMs: SEND_TIMEOUT_MS });
        const queue = bench.admin.queueName();
        await broker.publish(createMessages(10, { queue }));
        proxy.hold(way);
        const begin = performance.now();
        expect(tally(await broker.publish(createMessages(7_000, { queue })))).to.deep.equal({
          [OUTAGE]: 7_000,
        });
        expect(performance.now() - begin).to.be.below(3 * SEND_TIMEOUT_MS);
        expect(errors).to.have.length(1);
        // The old connection is not left behind.
        await eventually(() => {
          expect(openSockets(proxy.url)).to.equal(0);
        });
        proxy.release();
        expect(tally(await broker.publish(createMessages(10, { queue })))).to.deep.equal({ published: 10 });
        expect(proxy.accepted).to.equal(2);
      });
    }

    it('while it asks for a queue: an outage in time, then a new connection', async () => {
      const { broker } = createBroker({ broker: proxy.url, sendTimeoutMs: SEND_TIMEOUT_MS });
      await broker.connect();
      proxy.hold('replies');
      const queue = bench.admin.queueName();
      const begin = performance.now();
      const calls = [1, 2, 3].map(() => broker.publish(createMessages(1, { queue })));
      expect(tally((await Promise.all(calls)).flat())).to.deep.equal({ [OUTAGE]: 3 });
      expect(performance.now() - begin).to.be.below(3 * SEND_TIMEOUT_MS);
      proxy.release();
      expect(tally(await broker.publish(createMessages(1, { queue })))).to.deep.equal({ published: 1 });
    });

    it('after RabbitMQ said that it closes the connection: the socket is not kept', async () => {
      let say!: (frame: Buffer) => void;
      const wired = await createWiredProxy(bench.url, (client, server) => {
        client.pipe(server).pipe(client);
        say = (frame) => client.unpipe(server).write(frame);
      });
      const { broker, errors } = createBroker({ broker: wired.url });
      await broker.connect();
      say(CLOSE_FRAME);
      await eventually(() => {
        expect(errors).to.have.length(1);
        expect(openSockets(wired.url)).to.equal(0);
      });
      await wired.close();
    });
  });

  it('in the moment a channel is closed: nothing hangs', async () => {
    let connections = 0;
    const proxy = await createWiredProxy(bench.url, (client, server) => {
      const isCut = ++connections === 1;
      server.pipe(client);
      client.on('data', (data) => {
        if (isCut && data.includes(CHANNEL_CLOSE)) client.destroy();
        else server.write(data);
      });
    });
    try {
      const { broker } = createBroker({ broker: proxy.url });
      const queue = await bench.admin.queue();
      await broker.publish(createMessages(1, { queue }));
      await eventually(async () => {
        expect(tally(await broker.publish(createMessages(1, { queue })))).to.deep.equal({ published: 1 });
        expect(connections).to.equal(2);
      });
    } finally {
      await proxy.close();
    }
  });

  it('is slow: messages wait for their turn, not for their acknowledgement', async () => {
    const proxy = await createWiredProxy(bench.url, (client, server) => {
      pipeSlowly(8 * 1024 * 1024, client, server);
      server.pipe(client);
    });
    try {
      const { broker, errors } = createBroker({ broker: proxy.url, sendTimeoutMs: 1_200 });
      const queue = bench.admin.queueName();
      const batch = createMessages(80, { queue, body: Buffer.alloc(256 * 1024) });
      expect(tally(await broker.publish(batch))).to.deep.equal({ published: 80 });
      expect(errors).to.deep.equal([]);
    } finally {
      await proxy.close();
    }
  });
});
