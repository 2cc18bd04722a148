import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { pauseTasks, resumeTasks } from '../../../lib/store/pauses';
import { type Claim, claimRows, type ClaimRequest, START } from '../../../lib/store/relay/claim';
import * as settle from '../../../lib/store/relay/settle';
import type { Database } from '../../../lib/store/relay/statement';
import { tableNames } from '../../../lib/store/table-names';
import { createDatabase, type TestDatabase } from '../../support/database';
import { eventually } from '../../support/eventually';
import { insertTasks } from '../../support/relay-rows';

const names = tableNames();

describe('a claim', () => {
  let db: TestDatabase;
  let database: Database;
  before(async () => {
    db = await createDatabase();
    database = { knex: db.knex, timeoutMs: 5_000 };
  });
  beforeEach(() => db.empty());
  after(() => db.close());

  const claim = (request: Partial<ClaimRequest> = {}): Promise<Claim> =>
    claimRows(database, names, {
      token: randomUUID(),
      limit: 100,
      leaseMs: 60_000,
      after: START,
      minAgeMs: 0,
      partitions: null,
      deadLettersBlock: false,
      ...request,
    });
  const idsOf = ({ rows }: Claim): string[] => rows.map(({ taskId }) => taskId);

  it('takes the oldest rows first, as they were stored, and nobody takes them twice', async () => {
    const stored = await insertTasks(db.knex, 5, { args: '[18446744073709551616, "\\u0000"]' });
    const first = await claim({ limit: 3 });
    expect(idsOf(first)).to.deep.equal(stored.slice(0, 3));
    expect(first.rows[0]).to.include({
      args: '[18446744073709551616, "\\u0000"]',
      retries: 0,
      orderingKey: null,
    });
    expect(idsOf(await claim())).to.deep.equal(stored.slice(3));
    expect(idsOf(await claim())).to.deep.equal([]);
  });

  it('leaves alone what is not due, is claimed, paused, or of another version', async () => {
    await insertTasks(db.knex, 1, { available_at: "now() + interval '1 minute'" });
    await insertTasks(db.knex, 1, { schema_version: 2 });
    await insertTasks(db.knex, 1, { task_name: 'paused' });
    const [free] = await insertTasks(db.knex, 1);
    await pauseTasks(db.knex, names, 'paused');
    expect(idsOf(await claim())).to.deep.equal([free]);
    await resumeTasks(db.knex, names, 'paused');
    await pauseTasks(db.knex, names, null);
    expect(idsOf(await claim())).to.deep.equal([]);
    await resumeTasks(db.knex, names, null);
    expect(idsOf(await claim())).to.have.length(1);
  });

  it('takes what a relay left behind when its lease is over', async () => {
    await insertTasks(db.knex, 1);
    const lost = await claim({ leaseMs: 1 });
    await eventually(async () => {
      expect(idsOf(await claim())).to.deep.equal(idsOf(lost));
    });
  });

  it('passes over rows that another one is just claiming', async () => {
    const stored = await insertTasks(db.knex, 200);
    const claims = await Promise.all(Array.from({ length: 8 }, () => claim({ limit: 25 })));
    expect(claims.flatMap(idsOf).sort()).to.deep.equal(stored.sort());
  });

  it('takes only what has been due for long enough, if it is told to', async () => {
    const [old] = await insertTasks(db.knex, 1, { available_at: "now() - interval '1 minute'" });
    await insertTasks(db.knex, 1);
    expect(idsOf(await claim({ minAgeMs: 30_000 }))).to.deep.equal([old]);
  });

  it('goes on behind its mark, to the microsecond', async () => {
    await db.knex.raw(`
      INSERT INTO celery_outbox (task_id, task_name, args, kwargs, options, available_at)
      SELECT n::text, 't', '[]', '{}', '{}', '2026-01-01 00:00:00.000001+00'::timestamptz + n * interval '1 microsecond'
      FROM generate_series(1, 6) AS n`);
    const first = await claim({ limit: 2 });
    await settle.releaseRows(database, names, { token: 'nobody', ids: [] });
    const second = await claim({ limit: 2, after: first.position });
    const third = await claim({ limit: 2, after: second.position });
    expect([first, second, third].map(idsOf)).to.deep.equal([
      ['1', '2'],
      ['3', '4'],
      ['5', '6'],
    ]);
    expect(third.position.mark?.availableAt).to.equal('1767225600000007');
    const none = await claim({ after: third.position });
    expect(none).to.deep.equal({ rows: [], position: third.position, isEnd: true });
  });

  it('spreads rows over partitions, those of one key in one', async () => {
    await insertTasks(db.knex, 30);
    for (let key = 0; key < 10; key += 1)
      await insertTasks(db.knex, 2, { ordering_key: `key ${String(key)}` });
    const parts = [];
    for (const owned of [[0], [1], [2]]) parts.push(await claim({ partitions: { count: 3, owned } }));
    expect(parts.map(({ rows }) => rows.length).reduce((a, b) => a + b)).to.equal(50);
    for (const { rows } of parts) expect(rows.filter((row) => row.orderingKey === null)).to.have.length(10);
    const keys = parts.map(
      ({ rows }) => new Set(rows.map((row) => row.orderingKey).filter((key) => key !== null)),
    );
    expect(keys.reduce((sum, { size }) => sum + size, 0)).to.equal(10);
  });

  describe('with ordering keys', () => {
    it('takes the first of a key and what follows it, and nothing of a key that somebody has', async () => {
      const a = await insertTasks(db.knex, 3, { ordering_key: 'a' });
      const first = await claim({ limit: 4 });
      expect(idsOf(first)).to.deep.equal(a.slice(0, 2));
      const b = await insertTasks(db.knex, 2, { ordering_key: 'b' });
      const free = await insertTasks(db.knex, 1);
      expect(idsOf(await claim())).to.deep.equal([...b, ...free]);
      expect(idsOf(await claim())).to.deep.equal([]);
      const [head] = first.rows;
      // The token is not known here: by hand.
      await db.knex('celery_outbox').where({ id: head!.id }).delete();
      expect(idsOf(await claim())).to.deep.equal([]);
      await db.knex('celery_outbox').where({ task_id: a[1]! }).delete();
      expect(idsOf(await claim())).to.deep.equal(a.slice(2));
    });

    it('waits for an earlier one that is held, retried or paused, and stops at a gap', async () => {
      await insertTasks(db.knex, 1, { ordering_key: 'held', available_at: "now() + interval '1 hour'" });
      await insertTasks(db.knex, 1, { ordering_key: 'held' });
      const gap = await insertTasks(db.knex, 1, { ordering_key: 'gap' });
      await insertTasks(db.knex, 1, { ordering_key: 'gap', task_name: 'paused' });
      await insertTasks(db.knex, 1, { ordering_key: 'gap' });
      await pauseTasks(db.knex, names, 'paused');
      expect(idsOf(await claim())).to.deep.equal(gap);
    });

    it('goes on behind a dead letter, or not, as it is told', async () => {
      await insertTasks(db.knex, 2, { ordering_key: 'a' });
      const token = randomUUID();
      const { rows } = await claim({ token, limit: 1 });
      const [head, ...behind] = rows;
      const dead = { id: head!.id, error: 'why', reason: 'CODE', retries: 6 };
      expect(await settle.buryRows(database, names, token, [dead])).to.deep.equal(new Set([head!.id]));
      const ids = behind.map(({ id }) => id);
      await settle.releaseRows(database, names, { token, ids });
      expect(idsOf(await claim({ deadLettersBlock: true }))).to.deep.equal([]);
      expect(idsOf(await claim())).to.have.length(1);
    });

    it('takes no more than it was asked for, of rows with and without keys', async () => {
      await insertTasks(db.knex, 50);
      for (let key = 0; key < 7; key += 1)
        await insertTasks(db.knex, 20, { ordering_key: `k${String(key)}` });
      const { rows } = await claim({ limit: 40 });
      expect(rows.length).to.be.within(30, 40);
      expect(rows.filter((row) => row.orderingKey === null).length).to.be.within(20, 30);
      expect(new Set(rows.map((row) => row.orderingKey)).size).to.equal(8);
    });

    it('looks at a thousand keys at a time, and at the next thousand after that', async () => {
      await db.knex.raw(`
        INSERT INTO celery_outbox (task_id, task_name, args, kwargs, options, ordering_key, available_at)
        SELECT n::text, 't', '[]', '{}', '{}', 'key ' || n, now() + CASE WHEN n = 2500 THEN interval '0' ELSE interval '1 hour' END
        FROM generate_series(1, 2500) AS n`);
      let { position, isEnd, rows } = await claim();
      const taken = [...rows];
      for (let claims = 1; claims < 3; claims += 1) {
        expect(isEnd).to.equal(false);
        ({ position, isEnd, rows } = await claim({ after: position }));
        taken.push(...rows);
      }
      expect(isEnd).to.equal(true);
      expect(position).to.deep.equal(START);
      expect(taken.map(({ taskId }) => taskId)).to.deep.equal(['2500']);
    });

    it('is not slowed down by a key of many rows, whatever the planner knows', async function () {
      this.timeout(30_000);
      await insertTasks(db.knex, 1, { ordering_key: 'held', available_at: "now() + interval '1 hour'" });
      await insertTasks(db.knex, 50_000, { ordering_key: 'held' });
      const free = await insertTasks(db.knex, 10);
      await db.knex.raw('ANALYZE celery_outbox');
      const begin = performance.now();
      expect(idsOf(await claim())).to.deep.equal(free);
      // 50,000 rows one by one are more than half a second.
      expect(performance.now() - begin).to.be.below(300);
    });

    it('never gives one key to two, however many ask', async () => {
      for (let key = 0; key < 20; key += 1)
        await insertTasks(db.knex, 20, { ordering_key: `k${String(key)}` });
      const claims = await Promise.all(Array.from({ length: 10 }, () => claim({ limit: 7 })));
      const owners = new Map<string, number>();
      for (const [index, { rows }] of claims.entries()) {
        for (const { orderingKey } of rows) {
          expect(owners.get(orderingKey!) ?? index).to.equal(index);
          owners.set(orderingKey!, index);
        }
      }
      expect(owners.size).to.be.above(5);
    });
  });
});
