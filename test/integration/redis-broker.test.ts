import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type Redis from 'ioredis';
import type { CeleryOptions } from '../../lib/celery-options';
import type { Route } from '../../lib/message/celery-message';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import {
  codesOf,
  createAdmin,
  createBroker,
  createMessage,
  createMessages,
  idsIn,
  type TestBroker,
} from '../support/redis-broker';
import { retainedBytes } from '../support/retained-memory';
import { service } from '../support/services';

const SEP = '\x06\x16';

describe('the Redis broker', () => {
  let url: string;
  let redis: Redis;
  let prefix: string;
  let opened: TestBroker[];

  before(async () => {
    ({ url } = await service('redis'));
    redis = createAdmin(url);
  });
  beforeEach(() => {
    // Every test has keys of its own: the server is shared.
    prefix = `${randomUUID()}:`;
    opened = [];
  });
  afterEach(async () => {
    for (const { broker, errors } of opened) {
      await broker.close();
      expect(errors).to.deep.equal([]);
    }
    const keys = await redis.keys(`${prefix}*`);
    if (keys.length > 0) await redis.del(keys);
  });
  after(() => {
    redis.disconnect();
  });

  function open(options: Partial<CeleryOptions> = {}): TestBroker['broker'] {
    const transportOptions = { globalKeyprefix: prefix, ...options.transportOptions };
    const made = createBroker({ broker: url, ...options, transportOptions });
    opened.push(made);
    return made.broker;
  }
  const bind = (exchange: string, ...members: string[]): Promise<number> =>
    redis.sadd(`${prefix}_kombu.binding.${exchange}`, members);
  const keys = async (): Promise<string[]> =>
    (await redis.keys(`${prefix}*`)).map((key) => key.slice(prefix.length)).sort();

  it('lays a message out as kombu does', async () => {
    const message = createMessage({ queue: 'mail', headers: { retries: 0 }, body: [[1], {}, {}] });
    expect(codesOf(await open().publish([message]))).to.deep.equal(['published']);
    expect(await keys()).to.deep.equal(['mail']);
    const [item] = await redis.lrange(`${prefix}mail`, 0, -1);
    const envelope = JSON.parse(item!) as { body: string; properties: { delivery_tag: string } };
    expect(envelope).to.deep.equal({
      body: Buffer.from('[[1],{},{}]').toString('base64'),
      'content-encoding': 'utf-8',
      'content-type': 'application/json',
      headers: { lang: 'py', task: 'proj.tasks.add', id: message.taskId, retries: 0 },
      properties: {
        correlation_id: message.taskId,
        delivery_mode: 2,
        priority: 0,
        delivery_info: { exchange: '', routing_key: 'mail' },
        body_encoding: 'base64',
        delivery_tag: envelope.properties.delivery_tag,
      },
    });
  });

  it('has a list for each priority step, and keeps the given priority', async () => {
    const messages = [0, 2, 3, 5, 6, 9, 200].map((priority) => createMessage({ properties: { priority } }));
    await open().publish(messages);
    expect(await keys()).to.deep.equal(['celery', `celery${SEP}3`, `celery${SEP}6`, `celery${SEP}9`]);
    const ids = messages.map(({ taskId }) => taskId);
    expect(await idsIn(redis, `${prefix}celery`)).to.deep.equal(ids.slice(0, 2));
    expect(await idsIn(redis, `${prefix}celery${SEP}3`)).to.deep.equal(ids.slice(2, 4));
    expect(await idsIn(redis, `${prefix}celery${SEP}9`)).to.deep.equal(ids.slice(5));
    expect(await redis.lindex(`${prefix}celery${SEP}9`, 0)).to.include('"priority":200');
  });

  it('knows other steps and another separator', async () => {
    const broker = open({ transportOptions: { globalKeyprefix: prefix, prioritySteps: [0, 5], sep: '|' } });
    await bind('ex', 'k||bound');
    const route = { exchange: 'ex', routingKey: 'k', queue: null };
    await broker.publish([createMessage({ properties: { priority: 7 } }), createMessage({ route })]);
    expect(await keys()).to.deep.equal(['_kombu.binding.ex', 'bound', 'celery|5']);
  });

  it('keeps the order given, of many messages over several queues and calls', async () => {
    const broker = open();
    const messages = Array.from({ length: 3000 }, (_, index) => createMessage({ queue: `q${index % 3}` }));
    expect(new Set(codesOf(await broker.publish(messages.slice(0, 2000))))).to.have.keys(['published']);
    await broker.publish(messages.slice(2000));
    for (const queue of ['q0', 'q1', 'q2']) {
      const ids = messages.filter(({ route }) => route.queue === queue).map(({ taskId }) => taskId);
      expect(await idsIn(redis, prefix + queue)).to.deep.equal(ids);
    }
  });

  it('takes messages that are larger than a command should be', async () => {
    const large = createMessages(3, { body: ['x'.repeat(2_000_000)] });
    expect(codesOf(await open().publish(large))).to.deep.equal(['published', 'published', 'published']);
    expect(await idsIn(redis, `${prefix}celery`)).to.deep.equal(large.map(({ taskId }) => taskId));
  });

  it('keeps text and numbers as they are', async () => {
    const headers = { text: 'é\u{1f600}\u2028"\\', n: 2n ** 70n };
    await open().publish([createMessage({ headers, properties: { replyTo: 'ü' } })]);
    const [item] = await redis.lrange(`${prefix}celery`, 0, -1);
    expect(item).to.include('"n":1180591620717411303424');
    expect(JSON.parse(item!)).to.have.nested.property('headers.text', headers.text);
    expect(JSON.parse(item!)).to.have.nested.property('properties.reply_to', 'ü');
  });

  it('reports a message that cannot be written, and publishes the others', async () => {
    const headers: Record<string, never> = {};
    Object.assign(headers, { headers });
    const messages = [createMessage(), createMessage({ headers }), createMessage()];
    expect(codesOf(await open().publish(messages))).to.deep.equal([
      ...['published', 'ERR_CELERY_OUTBOX_MESSAGE_INVALID', 'published'],
    ]);
    expect(await redis.llen(`${prefix}celery`)).to.equal(2);
  });

  describe('with an exchange', () => {
    const to = (routingKey: string, queue: string | null = null): { route: Route } => ({
      route: { exchange: 'ex', routingKey, queue },
    });

    it('puts a copy into each queue that is bound with the key, or by a pattern', async () => {
      await bind('ex', `k${SEP}${SEP}one`, `k${SEP}${SEP}two`, `l${SEP}${SEP}three`);
      await bind('ex', String.raw`feed.#${SEP}^feed\..*?$${SEP}feeds`);
      const [direct, topic] = [createMessage(to('k')), createMessage(to('feed.rss'))];
      expect(codesOf(await open().publish([direct, topic]))).to.deep.equal(['published', 'published']);
      expect(await keys()).to.deep.equal(['_kombu.binding.ex', 'feeds', 'one', 'two']);
      const tags = new Set<unknown>();
      for (const queue of ['one', 'two']) {
        const { properties } = JSON.parse((await redis.lindex(prefix + queue, 0))!) as {
          properties: Record<string, unknown>;
        };
        expect(properties['correlation_id']).to.equal(direct.taskId);
        expect(properties['delivery_info']).to.deep.equal({ exchange: 'ex', routing_key: 'k' });
        tags.add(properties['delivery_tag']);
      }
      expect(tags).to.have.property('size', 2);
      expect(await idsIn(redis, `${prefix}feeds`)).to.deep.equal([topic.taskId]);
    });

    it('reports a message that no queue is bound for, and publishes the others', async () => {
      await bind('ex', `k${SEP}${SEP}one`);
      const nowhere = createMessage({ route: { exchange: 'other', routingKey: 'k', queue: null } });
      const nameless = createMessage({ route: { exchange: '', routingKey: '', queue: '' } });
      const messages = [createMessage(to('k')), createMessage(to('x')), nowhere, nameless, createMessage()];
      const outcomes = await open().publish(messages);
      const unroutable = 'ERR_CELERY_OUTBOX_UNROUTABLE';
      expect(codesOf(outcomes)).to.deep.equal([
        ...['published', unroutable, unroutable, unroutable, 'published'],
      ]);
      expect(outcomes[1]).to.have.nested.property(
        'error.message',
        'No queue is bound to exchange "ex" with routing key "x"',
      );
      expect(await keys()).to.deep.equal(['_kombu.binding.ex', 'celery', 'one']);
    });

    it('adds the binding of a configured queue as kombu does, also when it is lost', async () => {
      const queues = { feeds: { exchange: 'ex', exchangeType: 'topic', routingKey: 'feed.#' } } as const;
      const broker = open({ queues });
      expect(codesOf(await broker.publish([createMessage(to('feed.import', 'feeds'))]))).to.deep.equal([
        'published',
      ]);
      const member = 'feed.#\u0006\u0016^feed\\..*?$\u0006\u0016feeds';
      expect(await redis.smembers(`${prefix}_kombu.binding.ex`)).to.deep.equal([member]);
      await redis.del(`${prefix}_kombu.binding.ex`);
      expect(codesOf(await broker.publish([createMessage(to('feed.import', 'feeds'))]))).to.deep.equal([
        'published',
      ]);
      expect(await redis.llen(`${prefix}feeds`)).to.equal(2);
    });

    it('sees a binding that a worker makes later', async () => {
      const broker = open();
      expect(codesOf(await broker.publish([createMessage(to('k'))]))).to.deep.equal([
        'ERR_CELERY_OUTBOX_UNROUTABLE',
      ]);
      await bind('ex', `k${SEP}${SEP}one`);
      expect(codesOf(await broker.publish([createMessage(to('k'))]))).to.deep.equal(['published']);
    });

    it('reads the bindings of an exchange once for all messages', async () => {
      await bind('ex', `k${SEP}${SEP}one`);
      const broker = open();
      await broker.connect();
      const monitor = await redis.monitor();
      const seen: string[] = [];
      monitor.on('monitor', (_time: string, [name = '', key = '']: string[]) => {
        if (key.startsWith(prefix)) seen.push(name);
      });
      await broker.publish(createMessages(100, to('k')));
      await broker.publish([createMessage(to('k'))]);
      await redis.ping(prefix);
      await eventually(() => {
        expect(seen).to.deep.equal(['smembers', 'lpush', 'smembers', 'lpush', 'ping']);
      });
      monitor.disconnect();
    });

    for (const exchangeType of ['fanout', 'headers'] as const) {
      it(`refuses one of type ${exchangeType}, from which workers would not get the message`, async () => {
        const broker = open({ queues: { news: { exchange: 'ex', exchangeType } } });
        const [outcome] = await broker.publish([createMessage(to('news', 'news'))]);
        expect(codesOf([outcome!])).to.deep.equal(['ERR_CELERY_OUTBOX_MESSAGE_REFUSED']);
        expect(await keys()).to.deep.equal([]);
      });
    }

    it('reports a message that only some queues took as not published', async () => {
      await bind('ex', `k${SEP}${SEP}good`, `k${SEP}${SEP}bad`, `l${SEP}${SEP}good`);
      await redis.set(`${prefix}bad`, 'a string');
      const outcomes = await open().publish([createMessage(to('k')), createMessage(to('l'))]);
      expect(codesOf(outcomes)).to.deep.equal(['ERR_CELERY_OUTBOX_MESSAGE_REFUSED', 'published']);
      expect(await redis.llen(`${prefix}good`)).to.equal(2);
    });

    it('reports bindings that cannot be read or written', async () => {
      await redis.set(`${prefix}_kombu.binding.ex`, 'a string');
      const outcomes = await open().publish([createMessage(to('k')), createMessage()]);
      expect(codesOf(outcomes)).to.deep.equal(['ERR_CELERY_OUTBOX_MESSAGE_REFUSED', 'published']);
      expect(outcomes[0]).to.have.nested.property('error.message').that.includes('_kombu.binding.ex');
    });
  });

  it('lets one key that is no list fail alone', async () => {
    await redis.set(`${prefix}bad`, 'a string');
    const queues = ['a', 'bad', 'a', 'bad', 'b'];
    const outcomes = await open().publish(queues.map((queue) => createMessage({ queue })));
    const refused = 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
    expect(codesOf(outcomes)).to.deep.equal(['published', refused, 'published', refused, 'published']);
    expect(outcomes[1])
      .to.have.nested.property('error.message')
      .that.matches(/:bad": WRONGTYPE /);
    expect(await keys()).to.deep.equal(['a', 'b', 'bad']);
  });

  it('needs no connection for nothing, one for all, and none after close()', async () => {
    const others = openSockets(url);
    const broker = open();
    expect(await broker.publish([])).to.deep.equal([]);
    expect(openSockets(url)).to.equal(others);
    await Promise.all([
      broker.connect(),
      broker.publish([createMessage()]),
      broker.publish([createMessage()]),
    ]);
    await broker.connect();
    expect(openSockets(url)).to.equal(others + 1);
    await Promise.all([broker.close(), broker.close()]);
    await broker.close();
    expect(openSockets(url)).to.equal(others);
  });

  it('close() waits for what is in flight; then nothing is taken', async () => {
    await bind('ex', `k${SEP}${SEP}one`);
    const broker = open();
    await broker.connect();
    const route = { exchange: 'ex', routingKey: 'k', queue: null };
    const publishing = broker.publish(createMessages(1000, { route }));
    await broker.close();
    expect(new Set(codesOf(await publishing))).to.have.keys(['published']);
    expect(await redis.llen(`${prefix}one`)).to.equal(1000);
    const [outcome] = await broker.publish([createMessage()]);
    expect(outcome).to.have.property('status', 'outage');
    expect(outcome).to.have.nested.property('error.message').that.includes('closed');
  });

  it('needs no more memory after 100,000 messages than after 10,000', async function () {
    this.timeout(60_000);
    const broker = open();
    const messages = createMessages(500, { body: ['x'.repeat(200)] });
    const publish = async (calls: number): Promise<number> => {
      for (let call = 0; call < calls; call += 1) {
        await broker.publish(messages);
        await redis.del(`${prefix}celery`);
      }
      return retainedBytes();
    };
    const before = await publish(20);
    const after = await publish(180);
    expect(after - before).to.be.below(4 * 1024 * 1024);
  });
});
