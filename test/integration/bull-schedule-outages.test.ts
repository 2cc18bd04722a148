import { expect } from 'chai';
import type Redis from 'ioredis';
import type { RedisOptions } from 'ioredis';
import { startServices, type Services } from '../../services';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { redisBinary, startRedisProcess } from '../support/redis-process';
import { nextTicks, Schedules, SUMMARY, type TestSchedule } from '../support/schedule';
import { createSwitchProxy, type SwitchProxy } from '../support/switch-proxy';

describe('the Bull schedule, when Redis', () => {
  // Not the shared server: it is stopped, killed and reconfigured here.
  let services: Services<'redis'>;
  let redis: Redis;
  let schedules: Schedules;
  let proxy: SwitchProxy | undefined;

  before(async function () {
    this.timeout(60_000);
    services = await startServices(['redis']);
    redis = createAdmin(services.redis.url);
  });
  beforeEach(() => {
    schedules = new Schedules({ redis: services.redis.url });
  });
  afterEach(async () => {
    await schedules.stop();
    await proxy?.close();
    proxy = undefined;
    await services.redis.start();
    await redis.flushall();
  });
  after(async () => {
    redis.disconnect();
    await services.close();
  });

  const warnings = (one: TestSchedule): unknown[] => one.lines.map(({ level, message }) => [level, message]);
  const WARNING = ['warn', 'celery_outbox_schedule_error'];

  /** Stops, and says how long it took. */
  async function timedStop(): Promise<number> {
    const startedAt = performance.now();
    await schedules.stop();
    return performance.now() - startedAt;
  }
  /** The admin of this suite has one. */
  const expectNoSockets = (url: string, others = 0): Promise<void> =>
    eventually(() => {
      expect(openSockets(url)).to.equal(others);
    }, 100);

  it('is away for a while, is waited for; each outage is logged once', async () => {
    const one = schedules.create();
    one.schedule.lead([0, 1]);
    await nextTicks(one, 4);
    for (let outage = 1; outage <= 2; outage += 1) {
      await services.redis.kill();
      await eventually(() => {
        expect(warnings(one)).to.have.length(outage);
      });
      const { fields } = one.lines.at(-1)!;
      expect(fields).to.include({ relay_id: one.relayId });
      expect(fields['error'])
        .to.have.property('message')
        .that.matches(/ECONN|EPIPE/);
      await services.redis.start();
      await nextTicks(one, 10, 10_000);
      expect(new Set(one.ticks.slice(-10).map(({ partition }) => partition))).to.have.keys([0, 1]);
      expect(warnings(one)).to.deep.equal(Array(outage).fill(WARNING));
    }
  });

  it('is away when the relay begins to lead, is waited for', async () => {
    await services.redis.stop();
    const one = schedules.create();
    one.schedule.lead([0]);
    await eventually(() => {
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
    await services.redis.start();
    await nextTicks(one, 3, 10_000);
  });

  it('is away at the stop, does not keep it', async () => {
    const one = schedules.create();
    one.schedule.lead([0, 1, 2]);
    await nextTicks(one, 6);
    await services.redis.kill();
    await eventually(() => {
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
    expect(await timedStop()).to.be.below(500);
    await expectNoSockets(services.redis.url);
  });

  it('dies in the moment of the stop, does not keep it', async () => {
    const one = schedules.create();
    one.schedule.lead([0, 1, 2]);
    await nextTicks(one, 6);
    const killing = services.redis.kill();
    expect(await timedStop()).to.be.below(3_500);
    await killing;
    await expectNoSockets(services.redis.url);
  });

  it('was never there, does not keep the stop', async () => {
    await services.redis.stop();
    for (let turn = 0; turn < 5; turn += 1) {
      const one = schedules.create();
      one.schedule.lead([0]);
      if (turn > 0) await new Promise((resolve) => setTimeout(resolve, turn * 20));
      expect(await timedStop()).to.be.below(500);
    }
    await expectNoSockets(services.redis.url);
  });

  it('is silent at the stop, keeps it no longer than some seconds', async () => {
    proxy = await createSwitchProxy(services.redis.url);
    await schedules.start({ redis: proxy.url });
    proxy.hold('replies');
    expect(await timedStop()).to.be.below(4_500);
    await expectNoSockets(proxy.url);
  });

  it('is silent from the start, does not keep the stop', async () => {
    proxy = await createSwitchProxy(services.redis.url);
    proxy.hold('requests');
    schedules.create({ redis: proxy.url }).schedule.lead([0]);
    await eventually(() => {
      expect(proxy!.accepted).to.be.above(0);
    });
    expect(await timedStop()).to.be.below(4_500);
    await expectNoSockets(proxy.url);
  });

  it('goes away under a tick, lets it end; the relay stops all the same', async () => {
    const tick = createTick();
    const one = schedules.create({ tick: tick.run });
    one.schedule.lead([0]);
    await nextTicks(one, 1);
    await services.redis.kill();
    await eventually(() => {
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
    const stopping = timedStop();
    tick.end();
    expect(await stopping).to.be.below(500);
    await expectNoSockets(services.redis.url);
  });

  it('is there, has the end of the tick that the stop waited for', async () => {
    const tick = createTick();
    const one = schedules.create({ tick: tick.run });
    one.schedule.lead([0]);
    await nextTicks(one, 1);
    const stopping = timedStop();
    setTimeout(tick.end, 100);
    expect(await stopping).to.be.within(90, 1_000);
    const queue = await schedules.inspect(services.redis.url);
    expect(await queue.getJobCounts()).to.include({ active: 0, completed: 1, failed: 0 });
    expect(one.ticks).to.have.length(1);
  });

  it('is there or not, a tick that does not end keeps the stop no longer than some seconds', async () => {
    const tick = createTick();
    const one = schedules.create({ tick: tick.run });
    one.schedule.lead([0]);
    await nextTicks(one, 1);
    expect(await timedStop()).to.be.within(2_000, 4_500);
    await expectNoSockets(services.redis.url, 1);
    tick.end();
  });

  it('cuts the connections, gets new ones', async () => {
    const one = await schedules.start();
    for (let cut = 0; cut < 3; cut += 1) {
      await redis.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await redis.client('KILL', 'TYPE', 'pubsub');
      await nextTicks(one, 3);
    }
  });

  for (const [what, set, reset] of [
    ['is read-only', 'replicaof 127.0.0.1 1', 'replicaof no one'],
    ['is out of memory', 'config set maxmemory 1', 'config set maxmemory 0'],
  ] as const) {
    const call = (line: string): Promise<unknown> => {
      const [command, ...args] = line.split(' ');
      return redis.call(command!, ...args);
    };
    it(`${what}, is waited for`, async () => {
      const one = await schedules.start();
      await call(set);
      try {
        await eventually(() => {
          expect(warnings(one)).to.deep.equal([WARNING]);
        });
      } finally {
        await call(reset);
      }
      await nextTicks(one, 5, 10_000);
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
  }

  it('refuses the password, is tried again, and the log does not have the password', async () => {
    const { hostname: host, port } = new URL(services.redis.url);
    const server: RedisOptions = { host, port: Number(port), username: 'relay', password: 'secret' };
    await redis.acl('SETUSER', 'relay', 'on', '>right', '~*', '&*', '+@all');
    const one = schedules.create({ redis: server });
    one.schedule.lead([0]);
    await eventually(() => {
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
    expect(one.lines[0]!.fields['error']).to.have.property('message').that.includes('WRONGPASS');
    expect(one.lines[0]!.fields['error']).not.to.have.property('command');
    const attempts = await connectionsOf(redis);
    await eventually(async () => {
      expect(await connectionsOf(redis)).to.be.above(attempts + 6);
    });
    expect(warnings(one)).to.deep.equal([WARNING]);
    await redis.acl('SETUSER', 'relay', '>secret');
    await nextTicks(one, 3, 10_000);
    await schedules.stop();
    await redis.acl('DELUSER', 'relay');
  });

  it('forbids what Bull needs, is tried again with a new queue', async () => {
    const { hostname: host, port } = new URL(services.redis.url);
    const server: RedisOptions = { host, port: Number(port), username: 'relay', password: 'secret' };
    await redis.acl('SETUSER', 'relay', 'on', '>secret', '~*', 'resetchannels', '+@all');
    const one = schedules.create({ redis: server });
    one.schedule.lead([0]);
    await eventually(() => {
      expect(warnings(one)).to.deep.equal([WARNING]);
    });
    await redis.acl('SETUSER', 'relay', '&*');
    await nextTicks(one, 3, 10_000);
    await schedules.stop();
    await redis.acl('DELUSER', 'relay');
  });

  it('cannot be used with the options given, is an error in the log', () => {
    const one = schedules.create({ redis: { sentinels: [], name: 'm' } });
    one.schedule.lead([0]);
    expect(warnings(one)).to.deep.equal([WARNING]);
  });

  if (redisBinary !== undefined) {
    it('is frozen, is connected to anew until it answers', async function () {
      this.timeout(30_000);
      const server = await startRedisProcess(['save ""']);
      const admin = createAdmin(server.url);
      try {
        const pid = Number(/process_id:(\d+)/.exec(await admin.info('server'))![1]);
        const one = await schedules.start({ redis: server.url });
        process.kill(pid, 'SIGSTOP');
        await eventually(() => {
          expect(warnings(one)).to.deep.equal([WARNING]);
        }, 7_000);
        expect(one.lines[0]!.fields['error']).to.have.property('message').that.includes('did not answer');
        process.kill(pid, 'SIGCONT');
        await nextTicks(one, 5, 10_000);
        process.kill(pid, 'SIGSTOP');
        expect(await timedStop()).to.be.below(4_500);
        await expectNoSockets(server.url, 1);
        process.kill(pid, 'SIGCONT');
      } finally {
        admin.disconnect();
        await server.close();
      }
    });
  }
});

/** How many connections the server has taken. */
async function connectionsOf(redis: Redis): Promise<number> {
  return Number(/total_connections_received:(\d+)/.exec(await redis.info('stats'))![1]);
}

/** A tick that ends when it is told to. */
function createTick(): { run: () => Promise<typeof SUMMARY>; end: () => void } {
  let end = (): void => undefined;
  const ended = new Promise<typeof SUMMARY>((resolve) => {
    end = () => {
      resolve(SUMMARY);
    };
  });
  return { run: () => ended, end };
}
