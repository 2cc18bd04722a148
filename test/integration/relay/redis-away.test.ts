import { randomUUID } from 'node:crypto';
import Bull from 'bull';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { Relay, RelayOptions, RelayStatus } from '../../../lib/relay';
import { startServices, type Services } from '../../../services';
import { canRunPrivately, privatePlatform } from '../../services/fixtures/platforms';
import { useAdmin } from '../../support/amqp-admin';
import { eventually } from '../../support/eventually';
import { useRelay } from '../../support/relay';
import { type RelayProcess, useRelayProcesses } from '../../support/relay-process';
import { insertTasks } from '../../support/relay-rows';
import { Arrivals, Traffic } from './fixtures/traffic';

const IDLE_MS = 200;
const LOCK_TTL_MS = 1_500;
/** No task may wait longer than this, whatever Redis does: some idle times, on a machine that is busy. */
const PATIENCE_MS = 3_000;
/** How often the schedule is put right, and some time. */
const REASSERTED_MS = 25_000;

if (canRunPrivately()) {
  describe('relays whose Redis goes away', function () {
    this.timeout(60_000);
    const bundle = useRelay();
    const bench = useAdmin();
    const spawn = useRelayProcesses();
    let services: Services<'redis'>;
    let name: string;
    let queue: string;
    let arrivals: Arrivals;
    let traffic: Traffic;

    before(async () => {
      services = await startServices(['redis'], { platform: privatePlatform() });
    });
    beforeEach(async () => {
      name = `outbox-${randomUUID()}`;
      queue = await bench.admin.queue();
      arrivals = await Arrivals.watch(bench.admin, queue);
      traffic = new Traffic(bundle.db.knex);
    });
    afterEach(async () => {
      await traffic.stop();
      await services.redis.start();
    });
    after(() => services.close());

    function create(options: Partial<RelayOptions> = {}): Relay {
      return bundle.relay({
        celery: { broker: bench.url, queue },
        redis: services.redis.url,
        name,
        idleMs: IDLE_MS,
        lockTtlMs: LOCK_TTL_MS,
        ...options,
      });
    }
    async function start(count: number): Promise<Relay[]> {
      const relays = Array.from({ length: count }, () => create());
      await Promise.all(relays.map((relay) => relay.start()));
      return relays;
    }
    const modesOf = (relays: readonly Relay[]): RelayStatus['mode'][] =>
      relays.map((relay) => relay.status().mode).sort();
    const haveModes = (
      relays: readonly Relay[],
      modes: readonly RelayStatus['mode'][],
      timeoutMs = 10_000,
    ): Promise<void> =>
      eventually(() => {
        expect(modesOf(relays)).to.deep.equal(modes);
      }, timeoutMs);
    async function withRedis<T>(work: (redis: Redis) => Promise<T>): Promise<T> {
      const redis = new Redis(services.redis.url);
      try {
        return await work(redis);
      } finally {
        redis.disconnect();
      }
    }
    /** Waits until Bull has its one repeatable job, and runs it. */
    async function bullRuns(): Promise<void> {
      const bull = new Bull(name, services.redis.url);
      try {
        const before = (await bull.getCompletedCount()) + 1;
        await eventually(async () => {
          expect((await bull.getRepeatableJobs()).map(({ every }) => every)).to.deep.equal([IDLE_MS]);
          expect(await bull.getCompletedCount()).to.be.above(before);
        }, REASSERTED_MS);
      } finally {
        await bull.close();
      }
    }
    /** Everything that was committed came, once and without a long wait. */
    async function allArrived(): Promise<void> {
      await traffic.stop();
      await arrivals.catchUp(traffic);
      await eventually(async () => {
        expect(await bundle.db.rows()).to.deep.equal([]);
      });
      expect(arrivals.ids.toSorted()).to.deep.equal(traffic.ids.sort());
      expect(arrivals.slowestMs(traffic)).to.be.below(PATIENCE_MS);
      expect(bundle.logged('celery_outbox_pass_failed')).to.deep.equal([]);
    }
    async function stopsInTime(relay: Pick<Relay, 'stop'>): Promise<void> {
      const begunAt = performance.now();
      await relay.stop();
      expect(performance.now() - begunAt).to.be.below(6_000);
    }

    it('killed: they go on without it; started again, empty: one leads, with Bull', async () => {
      const relays = await start(2);
      await haveModes(relays, ['following', 'leading']);
      await bullRuns();
      await services.redis.kill();
      await haveModes(relays, ['unlocked', 'unlocked']);
      await traffic.more(20);
      await arrivals.catchUp(traffic);
      expect(bundle.logged('celery_outbox_redis_unavailable')).to.have.length(2);
      await services.redis.start();
      await haveModes(relays, ['following', 'leading']);
      expect(bundle.logged('celery_outbox_redis_available')).to.have.length(2);
      await bullRuns();
      await allArrived();
      const [one, other] = relays.map((relay) => relay.status());
      expect(one?.leaders).to.deep.equal(other?.leaders);
    });

    it('flushed: Bull and the lock come back, and one leads', async () => {
      const relays = await start(2);
      await haveModes(relays, ['following', 'leading']);
      for (let time = 0; time < 4; time += 1) {
        await withRedis((redis) => redis.flushall());
        await traffic.more(10);
      }
      await bullRuns();
      await haveModes(relays, ['following', 'leading']);
      await allArrived();
    });

    it('frozen: they go on without it, and with it when it answers again', async () => {
      const relays = await start(2);
      await haveModes(relays, ['following', 'leading']);
      const pid = await withRedis(async (redis) =>
        Number(/process_id:(\d+)/.exec(await redis.info('server'))![1]),
      );
      process.kill(pid, 'SIGSTOP');
      try {
        await haveModes(relays, ['unlocked', 'unlocked']);
        await traffic.more(20);
        await arrivals.catchUp(traffic);
        await stopsInTime(relays.pop()!);
      } finally {
        process.kill(pid, 'SIGCONT');
      }
      await haveModes(relays, ['leading']);
      await bullRuns();
      await allArrived();
    });

    it('away when they start: they work without it, and with it when it comes', async () => {
      await services.redis.kill();
      const begunAt = performance.now();
      const relays = await start(2);
      expect(performance.now() - begunAt).to.be.below(PATIENCE_MS);
      expect(modesOf(relays)).to.deep.equal(['unlocked', 'unlocked']);
      await traffic.more(10);
      await arrivals.catchUp(traffic);
      await stopsInTime(relays.pop()!);
      await services.redis.start();
      await haveModes(relays, ['leading']);
      await bullRuns();
      await allArrived();
    });

    it('never there: a relay without Redis works by its own clock', async () => {
      const relay = bundle.relay({ celery: { broker: bench.url, queue }, name, idleMs: IDLE_MS });
      await relay.start();
      await traffic.more(20);
      expect(relay.status()).to.include({ mode: 'unlocked', isListening: true });
      await allArrived();
      await stopsInTime(relay);
      expect(relay.status()).to.include({ mode: 'stopped', isListening: false });
      expect(await withRedis((redis) => redis.keys(`*${name}*`))).to.deep.equal([]);
    });

    it('in processes of their own: nothing is written to standard error, and SIGTERM ends them', async () => {
      const run = (): RelayProcess =>
        spawn({
          'database-url': bundle.db.url,
          broker: bench.url,
          redis: services.redis.url,
          queue,
          name,
          'idle-time': IDLE_MS / 1000,
          'lock-ttl': LOCK_TTL_MS / 1000,
        });
      const relays = [run(), run()];
      await Promise.all(relays.map((relay) => relay.logged('celery_outbox_relay_started')));
      await arrivals.catchUp(traffic);
      await services.redis.kill();
      await Promise.all(relays.map((relay) => relay.logged('celery_outbox_redis_unavailable')));
      await services.redis.start();
      await Promise.all(relays.map((relay) => relay.logged('celery_outbox_redis_available')));
      await services.redis.kill();
      const [first, second] = relays as [RelayProcess, RelayProcess];
      await stopsInTime({
        async stop() {
          first.signal('SIGTERM');
          expect(await first.exited).to.equal(0);
        },
      });
      const late = await insertTasks(bundle.db.knex, 10);
      await arrivals.include(late);
      await traffic.stop();
      await arrivals.catchUp(traffic);
      expect(arrivals.twice).to.deep.equal([]);
      second.signal('SIGTERM');
      expect(await second.exited).to.equal(0);
      expect(relays.map((relay) => relay.errors())).to.deep.equal(['', '']);
    });
  });
}
