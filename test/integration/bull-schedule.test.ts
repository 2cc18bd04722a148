import type { Job, Queue } from 'bull';
import { expect } from 'chai';
import type Redis from 'ioredis';
import { stub } from 'sinon';
import { assertRepeatable } from '../../lib/relay/schedule/assert-repeatable';
import type { TickData } from '../../lib/relay/schedule/tick';
import { startServices, type Services } from '../../services';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { nextTicks, repeatablesIn, Schedules, SUMMARY, type TestSchedule } from '../support/schedule';

describe('the Bull schedule', () => {
  // Not the shared server: it is flushed here.
  let services: Services<'redis'>;
  let url: string;
  let redis: Redis;
  let schedules: Schedules;

  before(async function () {
    this.timeout(60_000);
    services = await startServices(['redis']);
    url = services.redis.url;
    redis = createAdmin(url);
  });
  beforeEach(() => {
    schedules = new Schedules({ redis: url });
  });
  afterEach(async () => {
    await schedules.stop();
    await redis.flushall();
  });
  after(async () => {
    redis.disconnect();
    await services.close();
  });

  it('ticks about every idle time', async () => {
    const one = await schedules.start({ idleMs: 100 });
    await nextTicks(one, 20);
    const gaps = one.ticks.slice(1).map(({ at }, index) => at - one.ticks[index]!.at);
    expect(gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length).to.be.within(90, 130);
    expect(one.schedule.lastTickAt).to.be.closeTo(one.ticks.at(-1)!.at, 5);
    expect(one.lines).to.deep.equal([]);
  });

  it('goes to those who lead, and to nobody else', async () => {
    const [one, two] = [await schedules.start(), schedules.create()];
    two.schedule.lead([]);
    await nextTicks(one, 5);
    expect(two.ticks).to.deep.equal([]);
    expect(two.schedule.lastTickAt).to.equal(null);
    one.schedule.lead([]);
    two.schedule.lead([0]);
    const before = one.ticks.length;
    await nextTicks(two, 5);
    expect(one.ticks).to.have.length(before);
  });

  it('has a queue for each partition', async () => {
    const [one, two] = [schedules.create(), schedules.create()];
    one.schedule.lead([0, 2]);
    two.schedule.lead([1]);
    await Promise.all([nextTicks(one, 10), nextTicks(two, 5)]);
    expect(partitionsOf(one)).to.deep.equal([0, 2]);
    expect(partitionsOf(two)).to.deep.equal([1]);
    const names = [schedules.name, `${schedules.name}-1`, `${schedules.name}-2`];
    for (const name of names) {
      expect(await repeatablesIn(await schedules.inspect(url, name))).to.deep.equal(['pass:::50']);
    }
  });

  it('shows in Bull what every tick did, who ran it and for which partition, of the last 100', async () => {
    const one = await schedules.start({ idleMs: 10 });
    const queue = await schedules.inspect(url);
    await nextTicks(one, 105);
    const data = { relayId: one.relayId, partition: 0 };
    const [last] = await queue.getCompleted();
    expect(last).to.have.property('name', 'pass');
    expect(last!.data).to.deep.equal(data);
    expect(last!.returnvalue).to.deep.equal({ ...SUMMARY, ...data });
    expect(await queue.getCompletedCount()).to.be.within(99, 100);
    expect(await queue.getWorkers()).to.have.length(1);
  });

  it('names the new leader in the jobs after a change', async () => {
    const one = await schedules.start();
    one.schedule.lead([]);
    const two = await schedules.start();
    await nextTicks(two, 10);
    const [last] = await (await schedules.inspect(url)).getCompleted(0, 0);
    expect(last!.data.relayId).to.equal(two.relayId);
    expect((last!.returnvalue as TickData).relayId).to.equal(two.relayId);
  });

  it('goes on after ticks that throw, which Bull shows', async () => {
    const one = schedules.create({
      tick: (): Promise<never> => {
        throw new Error('the database is away');
      },
    });
    one.schedule.lead([0]);
    await nextTicks(one, 5);
    const [last] = await (await schedules.inspect(url)).getFailed();
    expect(last!.failedReason).to.equal('the database is away');
    expect(one.lines).to.deep.equal([]);
  });

  it('never has two ticks of a partition at once, and none piles up behind a long one', async () => {
    let [running, most] = [0, 0];
    const one = schedules.create({
      idleMs: 10,
      tick: async () => {
        most = Math.max(most, (running += 1));
        await new Promise((resolve) => setTimeout(resolve, 300));
        running -= 1;
        return SUMMARY;
      },
    });
    one.schedule.lead([0]);
    const queue = await schedules.inspect(url);
    await nextTicks(one, 5);
    expect(most).to.equal(1);
    const { waiting, delayed } = await queue.getJobCounts();
    expect(waiting + delayed).to.be.below(3);
  });

  describe('puts itself right when', () => {
    let one: TestSchedule;
    let queue: Queue<TickData>;

    beforeEach(async () => {
      one = await schedules.start();
      queue = await schedules.inspect(url);
    });

    /** Ticks go on, with one repeatable and one job to come. */
    async function expectRight(every = 50): Promise<void> {
      await eventually(async () => {
        expect(await repeatablesIn(queue)).to.deep.equal([`pass:::${String(every)}`]);
      }, 1_000);
      await nextTicks(one, 8, 1_500);
      expect(await repeatablesIn(queue)).to.deep.equal([`pass:::${String(every)}`]);
      const { waiting, delayed, paused } = (await queue.getJobCounts()) as unknown as Record<string, number>;
      expect(waiting! + delayed! + paused!).to.be.below(2);
    }

    it('its repeatable job is removed', async () => {
      await queue.removeRepeatable('pass', { every: 50 });
      await expectRight();
    });

    it('its next job is removed, so that the chain has ended', async () => {
      await removeNext();
      await expectRight();
    });

    it('its next job was taken by somebody who died', async () => {
      await eventually(async () => {
        const [id] = await redis.zrange(key('delayed'), 0, 0);
        expect(await redis.zrem(key('delayed'), id!)).to.equal(1);
        await redis.lpush(key('active'), id!);
      });
      await expectRight();
      expect(await queue.getActiveCount()).to.equal(1);
    });

    it('the data of its next job are gone', async () => {
      await eventually(async () => {
        const [id] = await redis.zrange(key('delayed'), 0, 0);
        expect(await redis.del(key(id!))).to.equal(1);
      });
      await expectRight();
    });

    it('others were added, by another interval, id or pattern', async () => {
      await queue.add('pass', {} as TickData, { repeat: { every: 70 } });
      await queue.add('pass', {} as TickData, { repeat: { every: 50 }, jobId: 'double' });
      await queue.add('pass', {} as TickData, { repeat: { cron: '* * * * * *' } });
      expect(await repeatablesIn(queue)).to.have.length(4);
      await expectRight();
    });

    it('its next job is far away, because a clock was ahead', async () => {
      const later = stub(Date, 'now').callsFake(() => new Date().getTime() + 3_600_000);
      try {
        await removeNext();
        await queue.add('pass', {} as TickData, { repeat: { every: 50 } });
      } finally {
        later.restore();
      }
      await expectRight();
    });

    it('the queue is obliterated, also under a tick', async () => {
      await queue.obliterate({ force: true });
      await expectRight();
    });

    it('Redis is flushed', async () => {
      await redis.flushall();
      await expectRight();
    });

    it('Redis starts again, empty', async () => {
      await services.redis.kill();
      await services.redis.start();
      await expectRight();
    });

    it('the interval is another one with the next leader', async () => {
      one.schedule.lead([]);
      one = await schedules.start({ idleMs: 40 });
      await expectRight(40);
    });

    async function removeNext(): Promise<void> {
      await eventually(async () => {
        const [next] = await queue.getDelayed();
        await next!.remove();
      });
    }
    const key = (name: string): string => `bull:${schedules.name}:${name}`;
  });

  it('begins again for a time whose job has ended, after a clock was set back', async () => {
    const queue = await schedules.inspect(url);
    const data = { relayId: 'one', partition: 0 };
    const frozen = stub(Date, 'now').returns(1_700_000_000_010);
    try {
      await assertRepeatable(queue, 50, data);
      const [first] = await queue.getDelayed();
      await first!.promote();
      await (await queue.getNextJob())!.moveToCompleted('', false, true);
      await removeDelayed(queue);
      expect(await queue.getCompletedCount()).to.equal(1);
      await assertRepeatable(queue, 50, data);
      expect((await queue.getDelayed()).map((job) => job.id)).to.deep.equal([first!.id]);
    } finally {
      frozen.restore();
    }
  });

  it('leaves jobs of others and by hand alone', async () => {
    const queue = await schedules.inspect(url);
    await queue.add('report', {} as TickData, { repeat: { every: 60_000 } });
    const byHand = await queue.add('pass', {} as TickData, { delay: 60_000 });
    const one = await schedules.start();
    await nextTicks(one, 10);
    expect(await repeatablesIn(queue)).to.have.members(['pass:::50', 'report:::60000']);
    expect(await byHand.isDelayed()).to.equal(true);
  });

  it('can be led, left and led again as fast as one likes', async () => {
    const one = await schedules.start();
    for (let turn = 0; turn < 20; turn += 1) {
      one.schedule.lead(turn % 2 === 0 ? [] : [0, 1]);
      if (turn % 3 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    one.ticks.length = 0;
    await eventually(() => {
      expect(partitionsOf(one)).to.deep.equal([0, 1]);
    });
    await schedules.stop();
    one.schedule.lead([0]);
    expect(openSockets(url)).to.equal(1);
  });

  it('uses a prefix for keys as Bull does', async () => {
    const { hostname: host, port } = new URL(url);
    await schedules.start({ redis: { host, port: Number(port), keyPrefix: 'app' } });
    expect(await redis.keys('*')).to.include(`app:${schedules.name}:repeat`);
    expect(await redis.keys('bull*')).to.deep.equal([]);
  });
});

function partitionsOf({ ticks }: TestSchedule): number[] {
  return [...new Set(ticks.map(({ partition }) => partition))].toSorted();
}

async function removeDelayed(queue: Queue<TickData>): Promise<void> {
  const delayed: Job<TickData>[] = await queue.getDelayed();
  for (const job of delayed) await job.remove();
}
