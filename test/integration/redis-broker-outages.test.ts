import { expect } from 'chai';
import type Redis from 'ioredis';
import type { CeleryOptions } from '../../lib/celery-options';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { startServices, type Services } from '../../services';
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
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';

describe('the Redis broker, when Redis', () => {
  // Not the shared server: it is stopped, killed and reconfigured here.
  let services: Services<'redis'>;
  let redis: Redis;
  let opened: TestBroker['broker'][];
  let proxy: SwitchProxy | undefined;

  before(async function () {
    this.timeout(60_000);
    services = await startServices(['redis']);
    redis = createAdmin(services.redis.url);
  });
  beforeEach(() => {
    opened = [];
  });
  afterEach(async () => {
    for (const broker of opened) await broker.close();
    await proxy?.close();
    proxy = undefined;
    await services.redis.start();
    await redis.flushall();
  });
  after(async () => {
    redis.disconnect();
    await services.close();
  });

  function open(options: Partial<CeleryOptions> = {}): TestBroker {
    const made = createBroker({ broker: services.redis.url, ...options });
    opened.push(made.broker);
    return made;
  }
  async function openProxy(): Promise<SwitchProxy> {
    return (proxy = await createSwitchProxy(services.redis.url));
  }

  /** Publishes until it succeeds: a back-off may have to pass. */
  const publishAtLast = (broker: TestBroker['broker'], message: CeleryMessage): Promise<void> =>
    eventually(async () => {
      expect(codesOf(await broker.publish([message]))).to.deep.equal(['published']);
    });

  it('cuts the connection (CLIENT KILL), is connected to again at once', async () => {
    const { broker, errors } = open();
    await broker.publish([createMessage()]);
    await redis.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() => {
      expect(errors).to.have.length(1);
    });
    expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
    expect(errors[0]).to.have.property('code', OUTAGE);
    expect(await redis.llen('celery')).to.equal(2);
  });

  it('is away, is not asked again before a back-off has passed', async () => {
    const { broker, errors } = open();
    await services.redis.stop();
    const [first] = await broker.publish([createMessage()]);
    expect(first).to.have.nested.property('error.message').that.includes('ECONNREFUSED');
    for (let call = 0; call < 50; call += 1) {
      const outcomes = await broker.publish(createMessages(10));
      expect(new Set(codesOf(outcomes))).to.have.keys([OUTAGE]);
    }
    expect(errors).to.have.length.below(3);
    await broker.connect().then(
      () => expect.fail('it connected'),
      (error: unknown) => expect(error).to.have.property('code', OUTAGE),
    );
    await services.redis.start();
    await publishAtLast(broker, createMessage());
  });

  it('took messages whose acknowledgement is lost, does not get them again', async () => {
    const link = await openProxy();
    const { broker, errors } = open({ broker: link.url });
    await broker.connect();
    link.hold('replies');
    const publishing = broker.publish(createMessages(1200));
    await eventually(async () => {
      expect(await redis.llen('celery')).to.equal(1200);
    });
    link.cut();
    expect(new Set(codesOf(await publishing))).to.have.keys([OUTAGE]);
    expect(errors).to.have.length(1);
    link.release();
    await publishAtLast(broker, createMessage());
    expect(await redis.llen('celery')).to.equal(1201);
  });

  it('did not get messages before the connection was cut, does not get them later', async () => {
    const link = await openProxy();
    const { broker } = open({ broker: link.url });
    await broker.connect();
    link.hold('requests');
    const publishing = broker.publish(createMessages(1200));
    await new Promise((resolve) => setImmediate(resolve));
    link.cut();
    expect(new Set(codesOf(await publishing))).to.have.keys([OUTAGE]);
    link.release();
    const last = createMessage();
    await publishAtLast(broker, last);
    expect(await idsIn(redis, 'celery')).to.deep.equal([last.taskId]);
  });

  it('falls silent, is given up after the send timeout, with what the socket still holds', async () => {
    const link = await openProxy();
    const { broker, errors } = open({ broker: link.url, sendTimeoutMs: 150 });
    await broker.connect();
    link.hold('requests');
    // More than the buffers between us and the proxy hold.
    const messages = createMessages(40, { body: ['x'.repeat(900_000)] });
    const [outcomes, others] = await Promise.all([
      broker.publish(messages),
      broker.publish([createMessage()]),
    ]);
    expect(new Set(codesOf([...outcomes, ...others]))).to.have.keys([OUTAGE]);
    expect(outcomes[0]).to.have.nested.property('error.message').that.includes('within 150 ms');
    expect(errors).to.have.length(1);
    await eventually(() => {
      expect(openSockets(link.url)).to.equal(0);
    });
    link.release();
    const last = createMessage({ queue: 'last' });
    await publishAtLast(broker, last);
    // Some of it had left us, the rest must not follow.
    expect(await redis.llen('celery')).to.be.below(40);
  });

  it('answers some and then falls silent, has published those', async () => {
    const link = await openProxy();
    const { broker } = open({ broker: link.url, sendTimeoutMs: 150 });
    await broker.connect();
    expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
    link.hold('replies');
    expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal([OUTAGE]);
    expect(await redis.llen('celery')).to.equal(2);
  });

  it('is closed while a message is on its way to a silent server, ends in time', async () => {
    const link = await openProxy();
    const { broker, errors } = open({ broker: link.url, sendTimeoutMs: 100 });
    await broker.connect();
    link.hold('requests');
    const publishing = broker.publish([createMessage()]);
    await broker.close();
    expect(openSockets(link.url)).to.equal(0);
    expect(codesOf(await publishing)).to.deep.equal([OUTAGE]);
    expect(errors).to.have.length.below(2);
  });

  it('has become a read-only replica, is an outage, and is connected to anew', async () => {
    const { broker, errors } = open();
    await broker.connect();
    await redis.replicaof('127.0.0.1', '1');
    try {
      const outcomes = await broker.publish([createMessage(), createMessage({ queue: 'b' })]);
      expect(codesOf(outcomes)).to.deep.equal([OUTAGE, OUTAGE]);
      expect(outcomes[0]).to.have.nested.property('error.message').that.includes('READONLY');
      expect(errors).to.have.length(1);
    } finally {
      await redis.replicaof('NO', 'ONE');
    }
    const before = await clientIds(redis);
    expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
    expect(await clientIds(redis)).to.have.length(before.length + 1);
    expect(errors).to.have.length(1);
  });

  it('is out of memory, is an outage that passes, over the same connection', async () => {
    const { broker, errors } = open();
    await broker.connect();
    await redis.config('SET', 'maxmemory', '1');
    try {
      const [outcome] = await broker.publish([createMessage()]);
      expect(codesOf([outcome!])).to.deep.equal([OUTAGE]);
      expect(outcome).to.have.nested.property('error.message').that.includes('OOM');
    } finally {
      await redis.config('SET', 'maxmemory', '0');
    }
    expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
    expect(errors).to.deep.equal([]);
  });

  it('wants more replicas than it has, or is busy, is an outage', async () => {
    const { broker } = open();
    await redis.config('SET', 'min-replicas-to-write', '1');
    try {
      const [outcome] = await broker.publish([createMessage()]);
      expect(outcome).to.have.property('status', 'outage');
      expect(outcome).to.have.nested.property('error.message').that.includes('NOREPLICAS');
    } finally {
      await redis.config('SET', 'min-replicas-to-write', '0');
    }
  });

  it('has no place for one more client, is an outage', async () => {
    const [, most] = (await redis.config('GET', 'maxclients')) as string[];
    await redis.config('SET', 'maxclients', '1');
    const { broker, errors } = open();
    try {
      expect(await broker.publish([createMessage()])).to.have.nested.property('[0].status', 'outage');
      expect(errors).to.have.length(1);
    } finally {
      await redis.config('SET', 'maxclients', most!);
    }
    await publishAtLast(broker, createMessage());
  });
});

async function clientIds(redis: Redis): Promise<string[]> {
  const list = (await redis.client('LIST')) as string;
  return list.trim().split('\n');
}
