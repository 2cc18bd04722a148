import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { useAdmin } from '../../support/amqp-admin';
import { createDatabase, type TestDatabase } from '../../support/database';
import { eventually } from '../../support/eventually';
import { type RelayProcess, useRelayProcesses } from '../../support/relay-process';
import { insertTasks } from '../../support/relay-rows';
import { service } from '../../support/services';

const LOCK_TTL_S = 2;
const IDLE_S = 0.2;
const LEASE_S = 3;

describe('relay processes', function () {
  this.timeout(120_000);
  const bench = useAdmin();
  const spawn = useRelayProcesses();
  let db: TestDatabase;
  let redisUrl: string;
  let queue: string;
  let name: string;
  before(async () => {
    db = await createDatabase();
    redisUrl = (await service('redis')).url;
  });
  beforeEach(async () => {
    await db.empty();
    queue = await bench.admin.queue();
    name = `outbox-${randomUUID()}`;
  });
  after(() => db.close());

  function relay(flags: Readonly<Record<string, string | number | true>> = {}): RelayProcess {
    return spawn({
      'database-url': db.url,
      broker: bench.url,
      redis: redisUrl,
      queue,
      name,
      'idle-time': IDLE_S,
      'lock-ttl': LOCK_TTL_S,
      'stale-timeout-seconds': LEASE_S,
      ...flags,
    });
  }
  const count = async (): Promise<number> => {
    const [row] = await db.knex('celery_outbox').count<{ count: string }[]>('*');
    return Number(row!.count);
  };
  const emptied = (timeoutMs = 60_000): Promise<void> =>
    eventually(async () => {
      expect(await count()).to.equal(0);
    }, timeoutMs);
  /** What a frozen relay has asked for is done. */
  const statementsEnded = (): Promise<void> =>
    eventually(async () => {
      const active = await db
        .knex('pg_stat_activity')
        .whereRaw("datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()");
      expect(active).to.deep.equal([]);
    });
  const claimedIds = (): Promise<string[]> =>
    db.knex('celery_outbox').whereNotNull('claimed_by').pluck('task_id');
  /** The one of several that leads. */
  const leaderOf = (relays: readonly RelayProcess[]): Promise<RelayProcess> =>
    Promise.any(relays.map((one) => one.logged('celery_outbox_leader_acquired').then(() => one)));

  it('send 20,000 rows, with retried and deferred ones among them, each exactly once', async () => {
    const exchange = bench.admin.exchangeName();
    const options = JSON.stringify({ exchange, routing_key: 'late' });
    const stored = [
      ...(await insertTasks(db.knex, 14_000)),
      ...(await insertTasks(db.knex, 3_000, { available_at: "now() + random() * interval '3 seconds'" })),
      ...(await insertTasks(db.knex, 3_000, { options })),
    ];
    const flags = {
      partitions: 2,
      'batch-size': 200,
      'backoff-time': 0.3,
      'max-backoff': 1,
      'max-retries': 1_000,
    };
    const relays = [relay(flags), relay(flags)];
    await Promise.all(relays.map((one) => one.logged('celery_outbox_leader_acquired')));
    await eventually(async () => {
      const retried = await db.knex('celery_outbox').where('retries', '>', 1);
      expect(retried).to.have.length.above(500);
    }, 30_000);
    await bench.admin.channel.assertExchange(exchange, 'direct');
    await bench.admin.channel.bindQueue(queue, exchange, 'late');
    await emptied();
    const received = await bench.admin.takeIds(queue);
    expect(received).to.have.length(20_000);
    expect(new Set(received)).to.deep.equal(new Set(stored));
  });

  it('take over within the lock TTL and a tick when the leader is killed, and its rows within the lease', async () => {
    const relays = [relay(), relay()];
    await Promise.all(relays.map((one) => one.logged('celery_outbox_relay_started')));
    const leader = await leaderOf(relays);
    const other = relays.find((one) => one !== leader)!;
    const claimed = await insertTasks(db.knex, 50, { available_at: "now() + interval '1 hour'" });
    await db.knex.raw(
      "UPDATE celery_outbox SET available_at = now(), claimed_by = 'the dead', claimed_until = now() + ? * interval '1 second'",
      [LEASE_S],
    );
    leader.signal('SIGKILL');
    const killedAt = performance.now();
    const [fresh] = await insertTasks(db.knex, 1);
    await other.logged('celery_outbox_leader_acquired');
    await eventually(async () => {
      expect((await db.rows()).map((row) => row.task_id)).to.not.include(fresh);
    });
    expect(performance.now() - killedAt).to.be.below((LOCK_TTL_S + LOCK_TTL_S / 3 + IDLE_S) * 1000 + 500);
    await emptied((LEASE_S + IDLE_S * 3 + 2) * 1000);
    expect((await bench.admin.takeIds(queue)).sort()).to.deep.equal([...claimed, fresh].sort());
  });

  it('settle nothing that was taken over while they were frozen', async () => {
    const stored = await insertTasks(db.knex, 20_000);
    const flags = { 'batch-size': 200, 'log-level': 'debug' };
    const frozen = relay(flags);
    await frozen.logged('celery_outbox_batch_processed');
    await eventually(async () => {
      frozen.signal('SIGSTOP');
      await statementsEnded();
      if ((await claimedIds()).length > 0) return;
      // Between two batches: a little later, then.
      frozen.signal('SIGCONT');
      throw new Error('the relay had nothing in its hands');
    });
    const inFlight = await claimedIds();
    expect(inFlight).to.have.length.within(1, 600);
    const other = relay(flags);
    await other.logged('celery_outbox_leader_acquired');
    await emptied();
    frozen.signal('SIGCONT');
    const { rows } = await frozen.logged('celery_outbox_lease_lost');
    expect(rows).to.be.at.most(inFlight.length);
    const later = await insertTasks(db.knex, 100);
    await emptied();
    const received = await bench.admin.takeIds(queue);
    expect(new Set(received)).to.deep.equal(new Set([...stored, ...later]));
    // Twice only what the frozen one had in its hands, and nothing that was not there any more is deleted by it.
    const once = new Set<string>();
    const twice = received.filter((id) => once.size === once.add(id).size);
    expect(inFlight).to.include.members(twice);
  });

  it('leave nothing claimed and nothing lost at SIGTERM under load, and hand the rest over at once', async () => {
    const stored = await insertTasks(db.knex, 30_000);
    const first = relay({ 'batch-size': 100, 'log-level': 'debug' });
    await first.logged('celery_outbox_batch_processed');
    first.signal('SIGTERM');
    expect(await first.exited).to.equal(0);
    const left = await count();
    expect(left).to.be.within(1, 29_999);
    expect(await db.knex('celery_outbox').whereNotNull('claimed_by')).to.deep.equal([]);
    const shutdown = await first.logged('celery_outbox_relay_shutdown');
    expect(shutdown).to.include({ unfinished: false });
    expect(await bench.admin.count(queue)).to.equal(30_000 - left);
    relay();
    await emptied();
    expect((await bench.admin.takeIds(queue)).sort()).to.deep.equal(stored.sort());
  });

  it('hand over to the next in milliseconds when they stop', async () => {
    const relays = [relay(), relay()];
    await Promise.all(relays.map((one) => one.logged('celery_outbox_relay_started')));
    const leader = await leaderOf(relays);
    const other = relays.find((one) => one !== leader)!;
    leader.signal('SIGINT');
    await leader.exited;
    const stoppedAt = performance.now();
    await other.logged('celery_outbox_leader_acquired');
    // Well below the TTL, after which it would be noticed anyway.
    expect(performance.now() - stoppedAt).to.be.below((LOCK_TTL_S * 1000) / 4);
  });

  it('end at once with the second signal', async () => {
    const frozen = relay({ broker: 'amqp://127.0.0.1:1', 'shutdown-timeout': 60 });
    await frozen.logged('celery_outbox_relay_started');
    frozen.signal('SIGTERM');
    frozen.signal('SIGINT');
    expect(await frozen.exited).to.be.oneOf([0, 1]);
  });

  it('refuse flags and addresses that are wrong, in one line and without a password', async () => {
    const wrong = spawn({ 'database-url': db.url, broker: 'http://user:secret@host/' });
    expect(await wrong.exited).to.equal(1);
    expect(wrong.errors())
      .to.match(/^celery-outbox: celery: broker must be/)
      .and.not.match(/secret|\n.*\n/);
    const missing = spawn({ 'database-url': db.url });
    expect(await missing.exited).to.equal(2);
    expect(missing.errors()).to.match(/--broker/);
  });

  it('send once, print what they did, and end', async () => {
    await insertTasks(db.knex, 5);
    const once = relay({ once: true });
    expect(await once.exited).to.equal(0);
    expect(once.lines.some((line) => line['published'] === 5)).to.equal(true);
  });
});
