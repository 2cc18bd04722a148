import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'chai';
import { useAdmin } from '../../support/amqp-admin';
import { createDatabase, type TestDatabase } from '../../support/database';
import { eventually } from '../../support/eventually';
import { createRandom } from '../../support/random';
import { type RelayProcess, useRelayProcesses } from '../../support/relay-process';
import { insertTasks } from '../../support/relay-rows';
import { service } from '../../support/services';
import { Arrivals } from './fixtures/traffic';

const SEED = 20;
const KEYS = 20;
/** Of so many rows, one has no key: something can be sent at any time. */
const KEYLESS = 5;
const EVERY_MS = 2;
const KILLS = 10;
/** What part of the rows goes to an exchange that comes and goes. */
const FAULTY = 0.05;
const LEASE_S = 4;

describe('order per key, with two relays that fail and die', function () {
  this.timeout(90_000);
  const bench = useAdmin();
  const spawn = useRelayProcesses();
  const random = createRandom(SEED);
  const below = (limit: number): number => Math.floor(random() * limit);
  let db: TestDatabase;
  before(async () => {
    db = await createDatabase();
  });
  after(() => db.close());

  /** Commits rows of random keys. @returns the task ids of each key, in the order of their commits */
  async function store(options: string, until: AbortSignal): Promise<Map<string | null, string[]>> {
    const stored = new Map<string | null, string[]>();
    while (!until.aborted) {
      const key = below(KEYLESS) === 0 ? null : `key-${below(KEYS)}`;
      const isFaulty = random() < FAULTY;
      const ids = await insertTasks(db.knex, 1, { ordering_key: key, ...(isFaulty && { options }) });
      stored.set(key, [...(stored.get(key) ?? []), ...ids]);
      await pause(EVERY_MS);
    }
    return stored;
  }

  it('is that of the commits; nothing is lost, and only what a dead one had in its hands comes twice', async () => {
    const queue = await bench.admin.queue();
    const exchange = bench.admin.exchangeName();
    const arrivals = await Arrivals.watch(bench.admin, queue);
    const flags = {
      'database-url': db.url,
      broker: bench.url,
      redis: (await service('redis')).url,
      queue,
      name: `outbox-${randomUUID()}`,
      partitions: 2,
      'batch-size': 20,
      'idle-time': 0.2,
      'lock-ttl': 1,
      'stale-timeout-seconds': LEASE_S,
      'backoff-time': 0.2,
      'max-backoff': 0.5,
      'max-retries': 10_000,
    };
    const run = async (): Promise<RelayProcess> => {
      const relay = spawn(flags);
      await relay.logged('celery_outbox_relay_started');
      return relay;
    };
    const progress = (count: number): Promise<void> => {
      const before = arrivals.ids.length;
      return eventually(() => {
        expect(arrivals.ids.length - before).to.be.at.least(count);
      }, 20_000);
    };
    const open = async (): Promise<void> => {
      await bench.admin.channel.assertExchange(exchange, 'direct');
      await bench.admin.channel.bindQueue(queue, exchange, 'late');
    };

    const enough = new AbortController();
    const storing = store(JSON.stringify({ exchange, routing_key: 'late' }), enough.signal);
    const inFlight = new Set<string>();
    let failures = 0;
    try {
      const relays = await Promise.all([run(), run()]);
      for (let kill = 0; kill < KILLS; kill += 1) {
        await progress(1 + below(40));
        const index = below(relays.length);
        relays[index]!.signal('SIGKILL');
        await relays[index]!.exited;
        const claimed = db.knex('celery_outbox').whereNotNull('claimed_by').pluck('task_id');
        for (const id of (await claimed) as string[]) inFlight.add(id);
        failures += relays[index]!.lines.filter(
          ({ message }) => message === 'celery_outbox_send_failed',
        ).length;
        if (kill % 2 === 0) await open();
        else await bench.admin.channel.deleteExchange(exchange);
        relays[index] = await run();
      }
      await open();
    } finally {
      enough.abort();
    }
    const stored = await storing;
    const all = [...stored.values()].flat();
    await arrivals.include(all, 30_000);
    await eventually(async () => {
      expect(await db.rows()).to.deep.equal([]);
    }, 2_000 * LEASE_S);

    const first = [...new Set(arrivals.ids)];
    expect(first).to.have.length(all.length);
    for (const [key, ids] of stored) {
      if (key === null) continue;
      const members = new Set(ids);
      expect(
        first.filter((id) => members.has(id)),
        key,
      ).to.deep.equal(ids);
    }
    expect(arrivals.twice.filter((id) => !inFlight.has(id))).to.deep.equal([]);
    expect(await db.knex('celery_outbox_dead_letter').pluck('last_error')).to.deep.equal([]);
    // The test has seen what it is about.
    expect(inFlight.size).to.be.above(0);
    expect(failures).to.be.above(0);
  });
});
