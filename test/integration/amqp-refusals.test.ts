import { expect } from 'chai';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { useAdmin } from '../support/amqp-admin';
import {
  codesOf,
  createMessage,
  createMessages,
  idsOf,
  routeTo,
  tally,
  useBrokers,
} from '../support/amqp-broker';

const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';
const REFUSED = 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
const INVALID = 'ERR_CELERY_OUTBOX_MESSAGE_INVALID';

describe('what RabbitMQ refuses fails alone', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();

  /** One that RabbitMQ answers by closing the channel. */
  const poison = (parts: Parameters<typeof createMessage>[0]): CeleryMessage =>
    createMessage({ ...parts, properties: { expiration: '1500.5' } });

  it('for an exchange that does not exist', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const queue = bench.admin.queueName();
    const [good, bad] = [{ queue }, { route: routeTo('nobody-declared-it', 'key') }];
    const batch = [good, bad, good, bad, good].map(createMessage);
    const outcomes = await broker.publish(batch);
    expect(codesOf(outcomes)).to.deep.equal(['published', UNROUTABLE, 'published', UNROUTABLE, 'published']);
    expect(outcomes[1]).to.have.nested.property('error.message').that.includes('nobody-declared-it');
    expect(await bench.admin.takeIds(queue)).to.deep.equal(idsOf([batch[0]!, batch[2]!, batch[4]!]));
    expect(errors).to.deep.equal([]);
  });

  it('for an exchange that is deleted, until it is there again', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const { exchange, queue } = await bench.admin.bound('#');
    const publish = async (): Promise<string[]> =>
      codesOf(await broker.publish(createMessages(2, { route: routeTo(exchange, 'key') })));
    expect(await publish()).to.deep.equal(['published', 'published']);
    await bench.admin.channel.deleteExchange(exchange);
    expect(await publish()).to.deep.equal([UNROUTABLE, UNROUTABLE]);
    await bench.admin.channel.assertExchange(exchange, 'topic');
    await bench.admin.channel.bindQueue(queue, exchange, '#');
    expect(await publish()).to.deep.equal(['published', 'published']);
  });

  it('for the exchange of a configured queue that is deleted: the next declares it', async () => {
    const [exchange, queue] = [bench.admin.exchangeName(), bench.admin.queueName()];
    const { broker } = createBroker({
      broker: bench.url,
      queues: { [queue]: { exchange, exchangeType: 'topic', routingKey: 'key' } },
    });
    const publish = async (): Promise<string[]> =>
      codesOf(await broker.publish(createMessages(2, { route: { exchange, routingKey: 'key', queue } })));
    expect(await publish()).to.deep.equal(['published', 'published']);
    await bench.admin.channel.deleteExchange(exchange);
    expect(await publish()).to.deep.equal([UNROUTABLE, UNROUTABLE]);
    expect(await publish()).to.deep.equal(['published', 'published']);
    expect(await bench.admin.count(queue)).to.equal(4);
  });

  it('for a key that nobody binds, among a thousand for a queue', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const { exchange, queue } = await bench.admin.bound('good.*');
    const keys = ['good.1', 'bad.1'];
    const batch = Array.from({ length: 1000 }, (_, index) =>
      createMessage({ route: routeTo(exchange, keys[index % 2]!) }),
    );
    const outcomes = await broker.publish(batch);
    const isGood = (_: unknown, index: number): boolean => index % 2 === 0;
    expect(tally(outcomes.filter(isGood))).to.deep.equal({ published: 500 });
    expect(tally(outcomes)).to.deep.equal({ published: 500, [UNROUTABLE]: 500 });
    expect(await bench.admin.takeIds(queue)).to.deep.equal(idsOf(batch.filter(isGood)));
  });

  it('for one of two with the same task id', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const { exchange, queue } = await bench.admin.bound('good.*');
    const taskId = 'the-same-for-both';
    const batch = ['bad.1', 'good.1', 'bad.2'].map((key) =>
      createMessage({ taskId, route: routeTo(exchange, key) }),
    );
    expect(codesOf(await broker.publish(batch))).to.deep.equal([UNROUTABLE, 'published', UNROUTABLE]);
    expect(await bench.admin.takeIds(queue)).to.deep.equal([taskId]);
  });

  it('for a queue that is full', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const full = await bench.admin.queue({
      arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' },
    });
    const queue = bench.admin.queueName();
    const parts = [{ queue: full }, { queue }, { queue: full }, { queue }];
    const outcomes = await broker.publish(parts.map(createMessage));
    expect(codesOf(outcomes)).to.deep.equal(['published', 'published', REFUSED, 'published']);
    expect(outcomes[2]).to.have.nested.property('error.message').that.includes(full);
    expect(await bench.admin.count(queue)).to.equal(2);
  });

  for (const [what, bytes] of [
    ['small', 100],
    // Many of these lie in the socket's buffer when the channel is closed.
    ['large', 200_000],
  ] as const) {
    it(`for one message that closes the channel in the middle of 500 ${what} ones`, async () => {
      const { broker, errors } = createBroker({ broker: bench.url });
      const { exchange, queue } = await bench.admin.bound('#');
      const parts = { route: routeTo(exchange, 'key'), body: Buffer.alloc(bytes) };
      const batch = createMessages(500, parts);
      batch[250] = poison(parts);
      const outcomes = await broker.publish(batch);
      expect(tally(outcomes)).to.deep.equal({ published: 499, [REFUSED]: 1 });
      expect(codesOf(outcomes)[250]).to.equal(REFUSED);
      const arrived = new Set(await bench.admin.takeIds(queue));
      expect(idsOf(batch).filter((id) => !arrived.has(id))).to.deep.equal([batch[250].taskId]);
      expect(errors).to.deep.equal([]);
    });
  }

  it('without disturbing other calls, each with a message that closes its channel', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const queue = bench.admin.queueName();
    const batches = Array.from({ length: 8 }, () => [...createMessages(50, { queue }), poison({ queue })]);
    const outcomes = await Promise.all(batches.map((batch) => broker.publish(batch)));
    for (const outcome of outcomes) expect(tally(outcome)).to.deep.equal({ published: 50, [REFUSED]: 1 });
    expect(new Set(await bench.admin.takeIds(queue)).size).to.equal(400);
    expect(errors).to.deep.equal([]);
  });

  it('for names that AMQP cannot carry', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const queue = bench.admin.queueName();
    const tooLong = 'é'.repeat(200);
    const parts = [
      { queue: tooLong },
      { route: routeTo(tooLong, 'key') },
      { queue, properties: { replyTo: tooLong } },
      { queue: '' },
      { queue },
    ];
    const outcomes = await broker.publish(parts.map(createMessage));
    expect(codesOf(outcomes)).to.deep.equal([INVALID, INVALID, INVALID, UNROUTABLE, 'published']);
    expect(errors).to.deep.equal([]);
  });

  it('for none of a hundred exchanges, with each of which it keeps a channel for a while', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const queue = await bench.admin.queue();
    const exchanges = await Promise.all(Array.from({ length: 100 }, () => bench.admin.exchange('fanout')));
    for (const exchange of exchanges) await bench.admin.channel.bindQueue(queue, exchange, '');
    for (let round = 1; round <= 3; round++) {
      const batch = exchanges.map((exchange) => createMessage({ route: routeTo(exchange, '') }));
      const calls = [batch.slice(0, 50), batch.slice(50), batch.slice(25, 75)];
      const outcomes = await Promise.all(calls.map((call) => broker.publish(call)));
      expect(tally(outcomes.flat())).to.deep.equal({ published: 150 });
    }
    expect(await bench.admin.count(queue)).to.equal(450);
    expect(errors).to.deep.equal([]);
  });
});
