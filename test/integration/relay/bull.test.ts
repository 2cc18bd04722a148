import { randomUUID } from 'node:crypto';
import Bull, { type Queue } from 'bull';
import { expect } from 'chai';
import type { PassSummary, Relay } from '../../../lib/relay';
import { useAdmin } from '../../support/amqp-admin';
import { eventually } from '../../support/eventually';
import { useRelay } from '../../support/relay';
import { insertTasks } from '../../support/relay-rows';
import { service } from '../../support/services';
import { Arrivals, Traffic } from './fixtures/traffic';

const IDLE_MS = 200;
/** How often the schedule is put right, and some time. */
const REASSERTED_MS = 30_000;
/** The relay waits for three ticks, then goes on by itself; with a margin for a machine that is busy. */
const PATIENCE_MS = 3 * IDLE_MS + IDLE_MS + 1_000;

type Result = PassSummary & { durationMs: number; relayId: string; partition: number };

describe('what Bull shows of a relay', function () {
  this.timeout(60_000);
  const bundle = useRelay();
  const bench = useAdmin();
  let bull: Queue;
  let relay: Relay;
  let arrivals: Arrivals;

  beforeEach(async () => {
    const redis = (await service('redis')).url;
    const name = `outbox-${randomUUID()}`;
    const queue = await bench.admin.queue();
    arrivals = await Arrivals.watch(bench.admin, queue);
    bull = new Bull(name, redis);
    relay = bundle.relay({
      celery: { broker: bench.url, queue },
      redis,
      name,
      idleMs: IDLE_MS,
      notify: false,
    });
    await relay.start();
    await ticks(2);
  });
  afterEach(async () => {
    await relay.stop();
    await bull.obliterate({ force: true });
    await bull.close();
  });

  const results = async (): Promise<Result[]> =>
    (await bull.getCompleted())
      .map((job) => (job as { returnvalue: Result } | null)?.returnvalue)
      .filter((result) => result !== undefined);
  const intervals = async (): Promise<number[]> => (await bull.getRepeatableJobs()).map(({ every }) => every);
  /** Waits until so many more jobs have ended. */
  async function ticks(count: number, timeoutMs?: number): Promise<void> {
    const last = async (): Promise<number> =>
      Math.max(0, ...(await bull.getCompleted()).map(({ timestamp }) => timestamp));
    for (let tick = 0; tick < count; tick += 1) {
      const before = await last();
      await eventually(async () => {
        expect(await last()).to.be.above(before);
      }, timeoutMs);
    }
  }

  it('is one repeatable job, and what each of its runs has done', async () => {
    expect(await intervals()).to.deep.equal([IDLE_MS]);
    await bundle.db.knex.transaction(async (trx) => {
      await insertTasks(trx, 25);
      await insertTasks(trx, 1, { options: '{"no_such_option": 1}' });
    });
    const busy = await eventually(async () => {
      const found = (await results()).find(({ published }) => published === 25);
      expect(found).not.to.equal(undefined);
      return found!;
    });
    expect(busy).to.include({ claimed: 26, published: 25, failed: 1, relayId: relay.id, partition: 0 });
    expect(busy.durationMs).to.be.within(0, 5_000);
    await ticks(1);
    const [idle] = await results();
    expect(idle).to.include({ claimed: 0, published: 0, failed: 0, relayId: relay.id });
    expect(await bull.getFailedCount()).to.equal(0);
    expect(await intervals()).to.deep.equal([IDLE_MS]);
  });

  it('comes back when it was deleted by hand, and meanwhile the relay goes on by itself', async () => {
    const traffic = new Traffic(bundle.db.knex);
    try {
      const [repeatable] = await bull.getRepeatableJobs();
      await bull.removeRepeatableByKey(repeatable!.key);
      expect(await intervals()).to.deep.equal([]);
      await eventually(async () => {
        expect(await intervals()).to.deep.equal([IDLE_MS]);
      }, REASSERTED_MS);
      await ticks(3);
    } finally {
      await traffic.stop();
    }
    await arrivals.catchUp(traffic);
    expect(arrivals.twice).to.deep.equal([]);
    expect(arrivals.slowestMs(traffic)).to.be.below(PATIENCE_MS);
    expect(relay.status()).to.include({ mode: 'leading' });
  });

  it('is paused and resumed by others, and the relay goes on by itself', async () => {
    await bull.pause();
    const ids = await insertTasks(bundle.db.knex, 5);
    await arrivals.include(ids, PATIENCE_MS);
    await bull.resume();
    await ticks(3);
  });
});
