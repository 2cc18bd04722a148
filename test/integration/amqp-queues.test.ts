import { expect } from 'chai';
import { connect, type Options } from 'amqplib';
import type { QueueOptions } from '../../lib/message/routing';
import { useAdmin } from '../support/amqp-admin';
import { codesOf, createMessage, createMessages, idsOf, tally, useBrokers } from '../support/amqp-broker';
import { methodsOf } from '../support/amqp-methods';
import { createRecordingProxy } from '../support/recording-proxy';

const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';

describe('queues are used as they are, and declared where they are missing', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();

  const existing: Record<string, Options.AssertQueue> = {
    'a quorum queue': { arguments: { 'x-queue-type': 'quorum' } },
    'one with priorities': { maxPriority: 5 },
    'one with a time to live': { messageTtl: 60_000 },
    'a lazy one': { arguments: { 'x-queue-mode': 'lazy' } },
    'one that is not durable': { durable: false },
    'one that deletes itself': { autoDelete: true },
  };
  for (const [what, options] of Object.entries(existing)) {
    it(`${what} is not declared again`, async () => {
      const queue = await bench.admin.queue(options);
      const { broker, errors } = createBroker({
        broker: bench.url,
        queues: { [queue]: { arguments: { 'x-max-length': 7 } } },
      });
      const batch = createMessages(3, { queue });
      expect(tally(await broker.publish(batch))).to.deep.equal({ published: 3 });
      expect(await bench.admin.takeIds(queue)).to.deep.equal(idsOf(batch));
      expect(errors).to.deep.equal([]);
    });
  }

  it('one that is exclusive to another connection gets its messages', async () => {
    const owner = await connect(bench.url);
    try {
      const channel = await owner.createChannel();
      const { queue } = await channel.assertQueue('', { exclusive: true });
      const { broker } = createBroker({ broker: bench.url });
      expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal(['published']);
      expect(await channel.checkQueue(queue)).to.include({ messageCount: 1 });
    } finally {
      await owner.close();
    }
  });

  const missing: Record<string, { options: QueueOptions; declared: Options.AssertQueue }> = {
    plain: { options: {}, declared: {} },
    quorum: { options: { type: 'quorum' }, declared: { arguments: { 'x-queue-type': 'quorum' } } },
    'with priorities': { options: { maxPriority: 9 }, declared: { maxPriority: 9 } },
    'with more arguments': {
      options: { arguments: { 'x-message-ttl': 60_000, 'x-single-active-consumer': true } },
      declared: { arguments: { 'x-message-ttl': 60_000, 'x-single-active-consumer': true } },
    },
  };
  for (const [what, { options, declared }] of Object.entries(missing)) {
    it(`a missing one is declared as it is configured: ${what}`, async () => {
      const queue = bench.admin.queueName();
      const { broker } = createBroker({ broker: bench.url, queues: { [queue]: options } });
      expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal(['published']);
      // RabbitMQ would refuse other arguments.
      await bench.admin.channel.assertQueue(queue, { durable: true, ...declared });
    });
  }

  it('one that is named like a property of every object is declared too', async () => {
    const { broker } = createBroker({ broker: bench.url });
    expect(codesOf(await broker.publish([createMessage({ queue: 'constructor' })]))).to.deep.equal([
      'published',
    ]);
    expect((await bench.admin.channel.deleteQueue('constructor')).messageCount).to.equal(1);
  });

  it('nothing is looked at or declared twice by one connection', async () => {
    const proxy = await createRecordingProxy(bench.url);
    try {
      const { broker } = createBroker({ broker: proxy.url });
      const [there, absent] = [await bench.admin.queue(), bench.admin.queueName()];
      const batch = (): ReturnType<typeof createMessages> =>
        [there, absent].flatMap((queue) => createMessages(50, { queue }));
      // The first calls race for the same queues.
      await Promise.all([broker.publish(batch()), broker.publish(batch())]);
      for (let call = 0; call < 5; call++) await broker.publish(batch());
      await broker.close();
      const methods = proxy.take().flatMap(methodsOf);
      const [look, declare] = [true, false];
      const declarations = (queue: string): boolean[] =>
        methods.filter(({ of }) => of === queue).map(({ isPassive }) => isPassive);
      expect(declarations(there)).to.deep.equal([look]);
      expect(declarations(absent)).to.deep.equal([look, declare]);
      expect(methods.filter(({ name }) => name === 'basic.publish')).to.have.length(700);
      // Two looks, a declaration, and one for all messages.
      expect(methods.filter(({ name }) => name === 'channel.open')).to.have.length(4);
    } finally {
      await proxy.close();
    }
  });

  it('one that is deleted in between is declared by the publish after the first that came back', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const [queue, other] = [bench.admin.queueName(), bench.admin.queueName()];
    const publish = async (): Promise<string[]> =>
      codesOf(await broker.publish([{ queue }, { queue: other }, { queue }].map(createMessage)));
    expect(await publish()).to.deep.equal(['published', 'published', 'published']);
    await bench.admin.channel.deleteQueue(queue);
    expect(await publish()).to.deep.equal([UNROUTABLE, 'published', UNROUTABLE]);
    expect(await publish()).to.deep.equal(['published', 'published', 'published']);
    expect(await bench.admin.count(queue)).to.equal(2);
    expect(await bench.admin.count(other)).to.equal(3);
    expect(errors).to.deep.equal([]);
  });

  it('one that is deleted while messages are on their way loses none that is reported published', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const queue = await bench.admin.queue();
    const batch = createMessages(20_000, { queue });
    await broker.publish(createMessages(1, { queue }));
    const publishing = broker.publish(batch);
    let arrived = 0;
    while (arrived === 0) arrived = (await bench.admin.count(queue)) - 1;
    // Those that are in it go with it.
    await bench.admin.channel.deleteQueue(queue);
    const outcomes = codesOf(await publishing);
    const firstBack = outcomes.indexOf(UNROUTABLE);
    expect(firstBack).to.be.above(0);
    expect(outcomes.slice(0, firstBack)).to.deep.equal(Array(firstBack).fill('published'));
    expect(outcomes.slice(firstBack)).to.deep.equal(Array(20_000 - firstBack).fill(UNROUTABLE));
    const again = batch.slice(firstBack);
    expect(tally(await broker.publish(again))).to.deep.equal({ published: again.length });
    expect(await bench.admin.takeIds(queue)).to.deep.equal(idsOf(again));
  });
});
