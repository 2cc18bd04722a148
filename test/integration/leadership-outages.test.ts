import { expect } from 'chai';
import type Redis from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { startServices, type Services } from '../../services';
import { eventually } from '../support/eventually';
import { eventsOf, Relays, type TestRelay } from '../support/leadership';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { redisBinary, startRedisProcess } from '../support/redis-process';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';

const TTL_MS = 600;

describe('the leader lock, when Redis', () => {
  // Not the shared server: it is stopped, killed and reconfigured here.
  let services: Services<'redis'>;
  let redis: Redis;
  let relays: Relays;
  let proxy: SwitchProxy | undefined;

  before(async function () {
    this.timeout(60_000);
    services = await startServices(['redis']);
    redis = createAdmin(services.redis.url);
  });
  beforeEach(() => {
    relays = new Relays({ redis: services.redis.url, lockTtlMs: TTL_MS, partitions: 2 });
  });
  afterEach(async () => {
    await relays.stop();
    await proxy?.close();
    proxy = undefined;
    await services.redis.start();
    await redis.flushall();
  });
  after(async () => {
    redis.disconnect();
    await services.close();
  });

  async function openProxy(): Promise<SwitchProxy> {
    return (proxy = await createSwitchProxy(services.redis.url));
  }
  const twoRelays = async (): Promise<[TestRelay, TestRelay]> => {
    const pair: [TestRelay, TestRelay] = [await relays.start(), await relays.start()];
    await relays.elect();
    expect(relays.shares()).to.deep.equal([1, 1]);
    return pair;
  };
  const modes = (): string[] => relays.all.map(({ leadership }) => leadership.mode);

  /** Waits until every relay works without the lock, and each has said so once. */
  const expectUnlocked = (why: RegExp): Promise<void> =>
    eventually(() => {
      for (const relay of relays.all) {
        expect(relay.leadership).to.include({ mode: 'unlocked' });
        expect(relay.leadership.partitions).to.deep.equal([0, 1]);
        const warnings = relay.lines.filter(({ level }) => level === 'warn');
        expect(warnings.map(({ message }) => message)).to.deep.equal(['celery_outbox_redis_unavailable']);
        expect(warnings[0]!.fields).to.include({ relay_id: relay.id });
        expect(warnings[0]!.fields['error']).to.have.property('message').that.matches(why);
      }
    });
  /** Waits until the partitions are shared by the lock again, and each relay has said so once. */
  const expectLocked = (): Promise<void> =>
    eventually(() => {
      expect(modes()).not.to.include('unlocked');
      expect(relays.led()).to.deep.equal([0, 1]);
      for (const relay of relays.all) {
        expect(eventsOf(relay).filter((event) => event === 'redis_available')).to.have.length(1);
      }
    });

  it('is killed, lets a leader go on and everybody in after a TTL, and has one leader each when it is back', async () => {
    const [first] = await twoRelays();
    const killedAt = performance.now();
    await services.redis.kill();
    await first.leadership.elect();
    expect(first.leadership.mode).to.equal('leading');
    let gaps = 0;
    await eventually(() => {
      if (first.leadership.partitions.length === 0) gaps += 1;
      expect(first.leadership.mode).to.equal('unlocked');
    });
    expect(performance.now() - killedAt).to.be.within(TTL_MS / 2, TTL_MS + 300);
    expect(gaps).to.be.below(2);
    await expectUnlocked(/ECONNREFUSED|closed|ECONNRESET/);
    await services.redis.start();
    await expectLocked();
    await eventually(() => {
      expect(relays.shares()).to.deep.equal([1, 1]);
    });
  });

  it('is stopped and started within a TTL, changes nothing', async () => {
    relays = new Relays({ redis: services.redis.url, lockTtlMs: 10_000 });
    const relay = await relays.start();
    await services.redis.stop();
    await relay.leadership.elect();
    await relay.leadership.elect();
    expect(relay.leadership.partitions).to.deep.equal([0]);
    await services.redis.start();
    await relay.leadership.elect();
    expect(relay.leadership.partitions).to.deep.equal([0]);
    expect(eventsOf(relay)).to.deep.equal(['leader_acquired']);
    expect(relay.changes).to.equal(1);
  });

  it('is flushed, gives each partition to one relay again with the next elections', async () => {
    relays = new Relays({ redis: services.redis.url, partitions: 4 });
    for (let count = 0; count < 3; count += 1) await relays.start();
    for (let round = 0; round < 2; round += 1) await relays.elect();
    for (let round = 0; round < 5; round += 1) {
      await redis.flushall();
      // The first one finds everything free, and nobody else.
      for (const { leadership } of relays.all.toReversed()) await leadership.elect();
      expect(relays.led()).to.deep.equal([0, 1, 2, 3]);
      await relays.elect();
      await relays.elect();
      expect(relays.led()).to.deep.equal([0, 1, 2, 3]);
      expect(relays.shares().toSorted()).to.deep.equal([1, 1, 2]);
    }
    // Until everybody's next election, two may believe that they lead.
    relays.conflicts.length = 0;
  });

  it('is away at the start, lets the relay work at once, and is used when it comes', async () => {
    await services.redis.stop();
    const startedAt = performance.now();
    const relay = await relays.start();
    expect(performance.now() - startedAt).to.be.below(TTL_MS);
    expect(relay.changes).to.equal(1);
    await expectUnlocked(/ECONNREFUSED/);
    await services.redis.start();
    await expectLocked();
    expect(eventsOf(relay)).to.deep.equal(['redis_unavailable', 'redis_available', 'leader_acquired']);
  });

  it('is away at the stop, does not keep it', async () => {
    await twoRelays();
    await services.redis.stop();
    const stoppedAt = performance.now();
    await relays.stop();
    expect(performance.now() - stoppedAt).to.be.below(TTL_MS);
    expect(modes()).to.deep.equal(['stopped', 'stopped']);
    await eventually(() => {
      expect(openSockets(services.redis.url)).to.equal(0);
    });
  });

  it('is silent, counts as away, at the start, later and at the stop', async () => {
    const link = await openProxy();
    relays = new Relays({ redis: link.url, lockTtlMs: TTL_MS, partitions: 2 });
    link.hold('requests');
    const startedAt = performance.now();
    await relays.start();
    expect(performance.now() - startedAt).to.be.below(TTL_MS);
    await expectUnlocked(/did not answer within 200 ms/);
    link.release();
    await expectLocked();
    link.hold('replies');
    await eventually(() => {
      expect(modes()).to.deep.equal(['unlocked']);
    });
    const stoppedAt = performance.now();
    await relays.stop();
    expect(performance.now() - stoppedAt).to.be.below(TTL_MS + 200);
    await eventually(() => {
      expect(openSockets(link.url)).to.equal(0);
    });
  });

  it('cuts connections, is connected to again without a word', async () => {
    const link = await openProxy();
    relays = new Relays({ redis: link.url });
    const relay = await relays.start();
    link.cut();
    await eventually(() => {
      expect(openSockets(link.url)).to.equal(0);
    });
    await relay.leadership.elect();
    await relay.leadership.elect();
    expect(relay.leadership.mode).to.equal('leading');
    expect(link.accepted).to.equal(2);
    expect(eventsOf(relay)).to.deep.equal(['leader_acquired']);
  });

  it('has become a read-only replica, counts as away', async () => {
    await twoRelays();
    await redis.replicaof('127.0.0.1', '1');
    try {
      await expectUnlocked(/READONLY/);
    } finally {
      await redis.replicaof('NO', 'ONE');
    }
    await expectLocked();
  });

  it('is out of memory, counts as away', async () => {
    await twoRelays();
    await redis.config('SET', 'maxmemory', '1');
    try {
      await expectUnlocked(/OOM/);
    } finally {
      await redis.config('SET', 'maxmemory', '0');
    }
    await expectLocked();
  });

  it('refuses the password or the database, counts as away, and the log does not have the password', async () => {
    const { hostname: host, port } = new URL(services.redis.url);
    const server: RedisOptions = { host, port: Number(port) };
    await redis.acl('SETUSER', 'relay', 'on', '>right', '~*', '+@all');
    const refused = await relays.start({ redis: { ...server, username: 'relay', password: 'secret' } });
    const lost = await relays.start({ redis: { ...server, db: 99 } });
    expect(modes()).to.deep.equal(['unlocked', 'unlocked']);
    expect(refused.lines[0]!.fields['error']).to.have.property('message').that.includes('WRONGPASS');
    expect(refused.lines[0]!.fields['error']).not.to.have.property('command');
    expect(lost.lines[0]!.fields['error']).to.have.property('message').that.includes('DB index');
    await redis.acl('SETUSER', 'relay', '>secret');
    await refused.leadership.elect();
    expect(refused.leadership.mode).not.to.equal('unlocked');
    await redis.acl('DELUSER', 'relay');
  });

  it('cannot be reached with the options given, counts as away', async () => {
    const relay = await relays.start({ redis: { sentinels: [], name: 'm' } });
    expect(relay.leadership.mode).to.equal('unlocked');
    await relay.leadership.stop();
  });

  if (redisBinary !== undefined) {
    it('is frozen, counts as away until it goes on', async () => {
      const server = await startRedisProcess(['save ""']);
      const admin = createAdmin(server.url);
      try {
        const pid = Number(/process_id:(\d+)/.exec(await admin.info('server'))![1]);
        relays = new Relays({ redis: server.url, lockTtlMs: TTL_MS, partitions: 2 });
        await twoRelays();
        process.kill(pid, 'SIGSTOP');
        await expectUnlocked(/did not answer/);
        process.kill(pid, 'SIGCONT');
        await expectLocked();
        await relays.stop();
      } finally {
        admin.disconnect();
        await server.close();
      }
    });
  }
});
