import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type Redis from 'ioredis';
import { BackendOutage, BrokerOutage } from '../../lib/broker/broker-error';
import { ChordSizes, type SizeError } from '../../lib/broker/redis/chord-sizes';
import { type CeleryOptions, parseCeleryOptions } from '../../lib/celery-options';
import { startServices } from '../../services';
import { createCertificate } from '../support/certificate';
import { closedPort } from '../support/closed-port';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { service } from '../support/services';
import { createSilentServer } from '../support/silent-server';
import { createSwitchProxy } from '../support/switch-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BACKEND_OUTAGE';

describe('sizes of chords', () => {
  let url: string;
  let redis: Redis;
  let opened: ChordSizes[];

  before(async () => {
    ({ url } = await service('redis'));
    redis = createAdmin(`${url}/5`);
  });
  beforeEach(() => {
    opened = [];
  });
  afterEach(async () => {
    for (const sizes of opened) await sizes.close();
    await redis.flushdb();
  });
  after(() => {
    redis.disconnect();
  });

  function open(options: Partial<CeleryOptions>): { sizes: ChordSizes; errors: unknown[] } {
    const errors: unknown[] = [];
    const settings = parseCeleryOptions({ broker: 'amqp://not-used.invalid', ...options });
    const sizes = new ChordSizes(settings, (error) => errors.push(error));
    opened.push(sizes);
    return { sizes, errors };
  }

  it('are written to the result backend for a day', async () => {
    const { sizes, errors } = open({ backend: `${url}/5` });
    const groups = new Map(Array.from({ length: 300 }, (_, index) => [randomUUID(), index + 1]));
    expect(await sizes.write(groups)).to.have.property('size', 0);
    for (const [group, size] of groups) {
      expect(await redis.get(`celery-taskset-meta-${group}.s`)).to.equal(String(size));
    }
    const [group] = groups.keys();
    expect(await redis.ttl(`celery-taskset-meta-${group!}.s`)).to.be.within(86_390, 86_400);
    expect(await redis.dbsize()).to.equal(300);
    expect(errors).to.deep.equal([]);
  });

  it('are written for as long, and under such keys, as the options say', async () => {
    const { sizes } = open({ backend: `${url}/5`, resultExpiresSeconds: 60, resultKeyPrefix: 'app' });
    expect(await writeOne(sizes)).to.equal(null);
    expect(await redis.keys('*')).to.deep.equal(['app_celery-taskset-meta-g.s']);
    expect(await redis.ttl('app_celery-taskset-meta-g.s')).to.be.within(50, 60);
  });

  it('need no connection until there is one to write, and none after close()', async () => {
    const others = openSockets(url);
    const { sizes } = open({ backend: `${url}/5` });
    expect(await sizes.write(new Map())).to.have.property('size', 0);
    expect(openSockets(url)).to.equal(others);
    await writeOne(sizes);
    expect(openSockets(url)).to.equal(others + 1);
    await Promise.all([sizes.close(), sizes.close()]);
    expect(openSockets(url)).to.equal(others);
    expect(await writeOne(sizes)).to.have.property('code', OUTAGE);
  });

  for (const backend of [undefined, 'amqp://127.0.0.1']) {
    it(`are refused with the backend ${String(backend)}`, async () => {
      const { sizes, errors } = open({ ...(backend !== undefined && { backend }) });
      const error = await writeOne(sizes);
      expect(error).to.have.property('code', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED');
      expect(error?.message).to.include('celery.backend').and.include('redis://');
      expect(errors).to.deep.equal([]);
      await sizes.close();
    });
  }

  it('are an outage while the backend is away', async () => {
    const { sizes, errors } = open({ backend: `redis://127.0.0.1:${String(await closedPort())}` });
    const error = await writeOne(sizes);
    expect(error).to.be.instanceOf(BackendOutage).and.not.instanceOf(BrokerOutage);
    expect(error).to.include({ code: OUTAGE, status: 503 });
    expect(error?.message).to.match(/^The result backend .*ECONNREFUSED/);
    expect(errors).to.have.length(1);
    expect(errors[0], 'nor is it reported as one').to.be.instanceOf(BackendOutage);
  });

  it('are an outage in time when the backend never answers', async () => {
    const silent = await createSilentServer();
    const backend = `redis://127.0.0.1:${String(silent.port)}`;
    const { sizes } = open({ backend, connectTimeoutMs: 100 });
    expect(await writeOne(sizes)).to.have.property('code', OUTAGE);
    await sizes.close();
    await eventually(() => {
      expect(openSockets(backend)).to.equal(0);
    });
    await silent.close();
  });

  it('are an outage when the backend can take nothing, and when the connection is lost', async () => {
    // Not the shared server: it is reconfigured here.
    const services = await startServices(['redis']);
    const own = createAdmin(services.redis.url);
    try {
      const { sizes, errors } = open({ backend: services.redis.url });
      expect(await writeOne(sizes)).to.equal(null);
      await own.config('SET', 'min-replicas-to-write', 1);
      const error = await writeOne(sizes);
      expect(error).to.be.instanceOf(BackendOutage).and.have.property('message').that.includes('NOREPLICAS');
      expect(errors).to.deep.equal([]);
      await own.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await eventually(() => {
        expect(errors).to.have.length(1);
      });
      expect(errors[0]).to.be.instanceOf(BackendOutage);
      await sizes.close();
    } finally {
      own.disconnect();
      await services.close();
    }
  });

  it('are a fault when the backend refuses one, and that one alone', async () => {
    await redis.call('ACL', 'SETUSER', 'chords', 'on', '>pw', '~celery-taskset-meta-a*', '+@all');
    try {
      const { host } = new URL(url);
      const { sizes } = open({ backend: `redis://chords:pw@${host}/5` });
      const groups = ['a1', 'b', 'a2'];
      const failed = await sizes.write(new Map(groups.map((group, index) => [group, index + 1])));
      expect([...failed.keys()]).to.deep.equal(['b']);
      const error = failed.get('b');
      expect(error).to.have.property('code', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED');
      expect(error?.message).to.include('NOPERM');
      expect(await redis.mget(groups.map((group) => `celery-taskset-meta-${group}.s`))).to.deep.equal([
        ...['1', null, '3'],
      ]);
    } finally {
      await redis.call('ACL', 'DELUSER', 'chords');
    }
  });

  it('go to the database of the backend, not to the one of brokerOptions', async () => {
    const group = randomUUID();
    const { sizes } = open({ broker: url, backend: url, brokerOptions: { db: 7 } });
    expect(await writeOne(sizes, group, 2)).to.equal(null);
    const first = createAdmin(url);
    const size = await first.getdel(`celery-taskset-meta-${group}.s`);
    first.disconnect();
    expect(size).to.equal('2');
  });

  it('have the options of the broker only on the same server', async () => {
    const brokerOptions = { password: 'a password that the server does not ask for' };
    const same = open({ broker: url, backend: `${url}/5`, brokerOptions });
    const error = await writeOne(same.sizes);
    expect(error).to.have.property('code', OUTAGE);
    expect(error).to.have.nested.property('cause.code', 'ERR_CELERY_OUTBOX_BROKER_ACCESS');
    const other = open({ broker: 'redis://other.invalid', backend: `${url}/5`, brokerOptions });
    expect(await writeOne(other.sizes)).to.equal(null);
  });

  it('have options of their own, which come before those of the broker', async () => {
    const wrong = { password: 'a password that the server does not ask for' };
    const backendOptions = { db: 5 };
    for (const broker of [url, 'amqp://not-used.invalid']) {
      const group = randomUUID();
      const { sizes } = open({ broker, backend: url, brokerOptions: wrong, backendOptions });
      expect(await writeOne(sizes, group, 2)).to.equal(null);
      expect(await redis.get(`celery-taskset-meta-${group}.s`)).to.equal('2');
    }
  });

  it('are written over TLS to a server whose certificate the options know', async () => {
    const certificate = createCertificate();
    if (certificate === undefined) return;
    const proxy = await createSwitchProxy(url, certificate);
    try {
      const backend = `rediss://localhost:${String(proxy.port)}/5`;
      const backendOptions = { tls: { ca: certificate.cert } };
      const { sizes } = open({ backend, backendOptions });
      expect(await writeOne(sizes)).to.equal(null);
      await sizes.close();
    } finally {
      await proxy.close();
    }
  });
});

/** Why it is not written; null if it is. */
async function writeOne(sizes: ChordSizes, group = 'g', size = 1): Promise<SizeError | null> {
  return (await sizes.write(new Map([[group, size]]))).get(group) ?? null;
}
