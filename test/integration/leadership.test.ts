import { expect } from 'chai';
import type Redis from 'ioredis';
import { stub } from 'sinon';
import { eventually } from '../support/eventually';
import { eventsOf, forkRelay, type RelayProcess, Relays } from '../support/leadership';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { service } from '../support/services';

describe('the leader lock', () => {
  let url: string;
  let redis: Redis;
  let relays: Relays;

  before(async () => {
    ({ url } = await service('redis'));
    redis = createAdmin(url);
  });
  beforeEach(() => {
    relays = new Relays({ redis: url });
  });
  afterEach(() => relays.stop());
  after(() => {
    redis.disconnect();
  });

  const keys = (): Promise<string[]> => redis.keys(`*${relays.name}*`);

  describe('of one partition', () => {
    it('has one leader of two relays, and both know who it is', async () => {
      const [first, second] = [await relays.start(), await relays.start()];
      expect(first.leadership).to.include({ mode: 'leading' });
      expect(first.leadership.partitions).to.deep.equal([0]);
      expect(second.leadership).to.include({ mode: 'following' });
      expect(second.leadership.partitions).to.deep.equal([]);
      await relays.elect();
      expect(relays.shares()).to.deep.equal([1, 0]);
      for (const { leadership } of relays.all) expect(leadership.leaders).to.deep.equal([first.id]);
      expect([first.changes, second.changes]).to.deep.equal([1, 1]);
      const fields = { partitions: [0], relay_id: first.id };
      expect(first.lines).to.deep.equal([
        { level: 'info', message: 'celery_outbox_leader_acquired', fields },
      ]);
      expect(second.lines).to.deep.equal([]);
    });

    it('stays with its leader, whoever joins', async () => {
      await relays.start({ relayId: 'm' });
      await relays.start({ relayId: 'a' });
      await relays.start({ relayId: 'z' });
      for (let round = 0; round < 3; round += 1) await relays.elect();
      expect(relays.shares()).to.deep.equal([1, 0, 0]);
    });

    it('is handed over by a relay that stops, at once', async () => {
      const [first, second] = [await relays.start(), await relays.start()];
      await first.leadership.stop();
      await second.leadership.elect();
      expect(second.leadership.partitions).to.deep.equal([0]);
      expect(second.leadership.leaders).to.deep.equal([second.id]);
      expect(first.leadership).to.include({ mode: 'stopped' });
      expect(first.leadership.partitions).to.deep.equal([]);
      expect(eventsOf(first)).to.deep.equal(['leader_acquired', 'leader_lost']);
    });

    it('is taken over from a relay that was killed, within its TTL and a third', async () => {
      const lockTtlMs = 900;
      const child = await forkRelay({ ...shared(), relayId: 'child', partitions: 1, lockTtlMs });
      try {
        expect(child.last).to.deep.equal([0]);
        const { leadership } = await relays.start({ lockTtlMs });
        expect(leadership.leaders).to.deep.equal(['child']);
        const killedAt = performance.now();
        await child.end();
        await eventually(() => {
          expect(leadership.mode).to.equal('leading');
        });
        expect(performance.now() - killedAt).to.be.below(lockTtlMs * (4 / 3) + 100);
      } finally {
        await child.end();
      }
    });

    it('is not led on by a relay that was frozen meanwhile', async () => {
      const lockTtlMs = 900;
      const child = await forkRelay({ ...shared(), relayId: 'child', partitions: 1, lockTtlMs });
      try {
        const { leadership } = await relays.start({ lockTtlMs });
        child.child.kill('SIGSTOP');
        await eventually(() => {
          expect(leadership.mode).to.equal('leading');
        });
        child.take();
        child.child.kill('SIGCONT');
        const said = await sayings(child, 50);
        expect(said.flat()).to.deep.equal([]);
        expect(leadership.partitions).to.deep.equal([0]);
      } finally {
        await child.end();
      }
    });

    it('is not led on after a TTL without an election, by a clock that cannot be set', async () => {
      const { leadership } = await relays.start();
      const startedAt = performance.now();
      const clock = stub(performance, 'now').returns(startedAt + 59_000);
      try {
        expect(leadership.partitions).to.deep.equal([0]);
        clock.returns(startedAt + 60_001);
        expect(leadership.partitions).to.deep.equal([]);
        expect(leadership.mode).to.equal('following');
        await leadership.elect();
        expect(leadership.partitions).to.deep.equal([0]);
        expect(leadership.mode).to.equal('leading');
      } finally {
        clock.restore();
      }
    });
  });

  describe('of four partitions', () => {
    it('is shared anew when relays come and go, and no partition ever has two leaders', async () => {
      relays = new Relays({ redis: url, partitions: 4 });
      const first = await relays.start({ relayId: 'a' });
      expect(relays.shares()).to.deep.equal([4]);
      await relays.start({ relayId: 'b' });
      expect(relays.shares()).to.deep.equal([4, 0]);
      await first.leadership.elect();
      expect(relays.shares()).to.deep.equal([2, 0]);
      expect(first.leadership.leaders).to.deep.equal([first.id, first.id, null, null]);
      await relays.elect();
      expect(relays.shares()).to.deep.equal([2, 2]);
      await relays.start({ relayId: 'c' });
      expect(relays.shares()).to.deep.equal([2, 2, 0]);
      await relays.elect();
      expect(relays.shares()).to.deep.equal([2, 1, 1]);
      expect(relays.led()).to.deep.equal([0, 1, 2, 3]);
      await first.leadership.stop();
      expect(relays.shares()).to.deep.equal([0, 1, 1]);
      await relays.elect();
      expect(relays.shares()).to.deep.equal([0, 2, 2]);
      expect(relays.led()).to.deep.equal([0, 1, 2, 3]);
    });

    it('leaves the fifth relay without one until another goes', async () => {
      relays = new Relays({ redis: url, partitions: 4 });
      for (let count = 0; count < 5; count += 1) await relays.start();
      for (let round = 0; round < 3; round += 1) await relays.elect();
      expect(relays.shares().toSorted()).to.deep.equal([0, 1, 1, 1, 1]);
      await relays.all.find(({ leadership }) => leadership.mode === 'leading')!.leadership.stop();
      await relays.elect();
      expect(relays.led()).to.deep.equal([0, 1, 2, 3]);
    });

    it('comes to rest by itself, through joins, stops and deaths', async () => {
      relays = new Relays({ redis: url, partitions: 7, lockTtlMs: 900 });
      const watch = setInterval(() => relays.check(), 1);
      const child = await forkRelay({ ...shared(), relayId: 'child', partitions: 7, lockTtlMs: 900 });
      try {
        await Promise.all([relays.start(), relays.start(), relays.start()]);
        await eventually(() => {
          expect([child.last.length, ...relays.shares()].toSorted()).to.deep.equal([1, 2, 2, 2]);
        });
        await child.end();
        await relays.all[1]!.leadership.stop();
        await relays.start();
        await eventually(() => {
          expect(relays.shares().toSorted()).to.deep.equal([0, 2, 2, 3]);
        });
        expect(relays.led()).to.deep.equal([0, 1, 2, 3, 4, 5, 6]);
      } finally {
        clearInterval(watch);
        await child.end();
      }
    });
  });

  it('holds one election at a time', async () => {
    const relay = await relays.start();
    const elections = async (): Promise<number> =>
      Number(/cmdstat_eval:calls=(\d+)/.exec(await redis.info('commandstats'))![1]);
    const before = await elections();
    await Promise.all(Array.from({ length: 20 }, () => relay.leadership.elect()));
    expect(await elections()).to.equal(before + 1);
  });

  it('keeps its keys on one node of a cluster, each with a TTL, and removes them in the end', async () => {
    relays = new Relays({ redis: { ...endpoint(), keyPrefix: 'app:' }, partitions: 3 });
    await relays.start({ relayId: 'one' });
    const names = ['leader:0', 'leader:1', 'leader:2', 'relay:one', 'relays'];
    expect((await keys()).toSorted()).to.deep.equal(names.map((name) => `app:{${relays.name}}:${name}`));
    for (const key of await keys()) expect(await redis.pttl(key)).to.be.within(50_000, 60_000);
    await relays.stop();
    expect(await keys()).to.deep.equal([]);
  });

  it('frees no lock that another relay has taken', async () => {
    const relay = await relays.start();
    await redis.set(`{${relays.name}}:leader:0`, 'other');
    await relay.leadership.stop();
    expect(await redis.get(`{${relays.name}}:leader:0`)).to.equal('other');
    await redis.del(`{${relays.name}}:leader:0`);
  });

  it('does nothing before its start and after its stop, which may come first or twice', async () => {
    const connections = openSockets(url);
    const relay = relays.create();
    expect(relay.leadership).to.include({ mode: 'stopped' });
    await relay.leadership.elect();
    await relay.leadership.stop();
    await relay.leadership.start();
    await relay.leadership.stop();
    expect(relay.leadership).to.include({ mode: 'stopped' });
    expect(await keys()).to.deep.equal([]);
    await eventually(() => {
      expect(openSockets(url)).to.equal(connections);
    });
  });

  it('is free when a relay stops in the middle of an election', async () => {
    const relay = relays.create();
    const starting = relay.leadership.start();
    await relay.leadership.stop();
    await starting;
    expect(relay.leadership.partitions).to.deep.equal([]);
    expect(await keys()).to.deep.equal([]);
  });

  function shared(): { redis: string; name: string } {
    return { redis: url, name: relays.name };
  }
  function endpoint(): { host: string; port: number } {
    const { hostname, port } = new URL(url);
    return { host: hostname, port: Number(port) };
  }
});

/** What the process says from now on. */
async function sayings(child: RelayProcess, count: number): Promise<(readonly number[])[]> {
  const said: (readonly number[])[] = [];
  await eventually(() => {
    said.push(...child.take());
    expect(said).to.have.length.above(count);
  });
  return said;
}
