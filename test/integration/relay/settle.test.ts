import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import createKnex from 'knex';
import { claimRows, type ClaimedRow, START } from '../../../lib/store/relay/claim';
import * as settle from '../../../lib/store/relay/settle';
import type { Database } from '../../../lib/store/relay/statement';
import { countUnknownVersions, purgeKeys, purgeSent } from '../../../lib/store/relay/upkeep';
import { tableNames } from '../../../lib/store/table-names';
import { createDatabase, type TestDatabase } from '../../support/database';
import { createFreezingProxy } from '../../support/freezing-proxy';
import { rejection } from '../../support/rejection';
import { insertTasks } from '../../support/relay-rows';

const names = tableNames();

describe('settling claimed rows', () => {
  let db: TestDatabase;
  let database: Database;
  before(async () => {
    db = await createDatabase();
    database = { knex: db.knex, timeoutMs: 5_000 };
  });
  beforeEach(() => db.empty());
  after(() => db.close());

  async function claim(
    count: number,
  ): Promise<{ token: string; ids: string[]; rows: readonly ClaimedRow[] }> {
    await insertTasks(db.knex, count, { args: '[18446744073709551616]', log_context: '{"request": "r"}' });
    const token = randomUUID();
    const request = {
      token,
      limit: count,
      leaseMs: 60_000,
      after: START,
      minAgeMs: 0,
      partitions: null,
      deadLettersBlock: false,
    };
    const { rows } = await claimRows(database, names, request);
    return { token, rows, ids: rows.map(({ id }) => id) };
  }
  const waitMs = async (): Promise<number[]> => {
    const { rows } = await db.knex.raw<{ rows: { ms: number }[] }>(
      'SELECT (extract(epoch FROM available_at - now()) * 1000)::float8 AS ms FROM celery_outbox ORDER BY id',
    );
    return rows.map(({ ms }) => ms);
  };

  it('deletes what was sent', async () => {
    const { token, ids } = await claim(3);
    expect(await settle.deleteRows(database, names, { token, ids })).to.deep.equal(new Set(ids));
    expect(await db.rows()).to.deep.equal([]);
  });

  it('archives what was sent, unaltered, until its retention is over', async () => {
    const { token, ids, rows } = await claim(2);
    const before = await db.rows();
    expect(await settle.archiveRows(database, names, { token, ids })).to.deep.equal(new Set(ids));
    expect(await db.rows()).to.deep.equal([]);
    const archived = await db.knex('celery_outbox_sent').select('*', db.knex.raw('args::text')).orderBy('id');
    expect(archived.map((row: { id: string }) => row.id)).to.deep.equal(ids);
    expect(archived[0]).to.include({ task_id: rows[0]!.taskId, args: '[18446744073709551616]', retries: 0 });
    expect((archived[0] as { created_at: Date }).created_at).to.deep.equal(before[0]!.created_at);
    expect(await purgeSent(database, names, 60_000)).to.equal(0);
    await db.knex('celery_outbox_sent').update({ sent_at: db.knex.raw("now() - interval '2 minutes'") });
    expect(await purgeSent(database, names, 60_000)).to.equal(2);
  });

  it('retries what failed, after its own delay, on the clock of the database', async () => {
    const { token, ids } = await claim(2);
    const failed = ids.map((id, index) => ({
      id,
      error: `error ${String(index)}`,
      delayMs: 10_000 * (index + 1),
    }));
    await settle.retryRows(database, names, token, failed);
    const rows = await db.knex('celery_outbox').orderBy('id');
    expect(rows[0]).to.include({ retries: 1, last_error: 'error 0', claimed_by: null, claimed_until: null });
    expect(rows[1]).to.include({ retries: 1, last_error: 'error 1' });
    const [first, second] = await waitMs();
    expect(first).to.be.within(9_000, 10_000);
    expect(second).to.be.within(19_000, 20_000);
  });

  it('defers without a retry, and releases for whoever comes next', async () => {
    const { token, ids } = await claim(2);
    await settle.deferRows(database, names, token, [{ id: ids[0]!, error: 'away' }], 30_000);
    await settle.releaseRows(database, names, { token, ids: [ids[1]!] });
    const [deferred, released] = await db.knex<Record<string, unknown>>('celery_outbox').orderBy('id');
    expect(deferred).to.include({ retries: 0, last_error: 'away', claimed_by: null });
    expect(released).to.include({ retries: 0, last_error: null, claimed_by: null, claimed_until: null });
    const [later, now] = await waitMs();
    expect(later).to.be.within(29_000, 30_000);
    expect(now).to.be.below(0);
  });

  it('moves the dead with reason, error and all that they were', async () => {
    const { token, ids, rows } = await claim(1);
    const stored = await db.rows();
    const dead = { id: ids[0]!, reason: 'ERR_X', error: 'no such queue', retries: 6 };
    expect(await settle.buryRows(database, names, token, [dead])).to.deep.equal(new Set(ids));
    const [letter] = await db
      .knex<Record<string, unknown>>('celery_outbox_dead_letter')
      .select<Record<string, unknown>[]>('*', db.knex.raw('args::text'));
    expect(letter).to.include({
      id: ids[0],
      task_id: rows[0]!.taskId,
      args: '[18446744073709551616]',
      retries: 6,
      failure_reason: 'ERR_X',
      last_error: 'no such queue',
    });
    expect((letter as { created_at: Date }).created_at).to.deep.equal(stored[0]!.created_at);
    expect(await db.rows()).to.deep.equal([]);
  });

  it('changes nothing of rows that somebody else has claimed meanwhile', async () => {
    const { ids } = await claim(1);
    const stale = { token: randomUUID(), ids };
    const [id] = ids;
    const failure = { id: id!, error: 'e', delayMs: 1, reason: 'r', retries: 1 };
    const before = await db.knex('celery_outbox');
    for (const changed of [
      await settle.deleteRows(database, names, stale),
      await settle.archiveRows(database, names, stale),
      await settle.retryRows(database, names, stale.token, [failure]),
      await settle.buryRows(database, names, stale.token, [failure]),
      await settle.deferRows(database, names, stale.token, [failure], 1),
      await settle.releaseRows(database, names, stale),
      await settle.renewRows(database, names, stale, 1),
    ])
      expect(changed).to.deep.equal(new Set());
    expect(await db.knex('celery_outbox')).to.deep.equal(before);
  });

  it('renews a lease', async () => {
    const { token, ids } = await claim(1);
    await db.knex('celery_outbox').update({ claimed_until: db.knex.fn.now() });
    expect(await settle.renewRows(database, names, { token, ids }, 60_000)).to.deep.equal(new Set(ids));
    const { rows } = await db.knex.raw<{ rows: { ok: boolean }[] }>(
      "SELECT claimed_until > now() + interval '59 seconds' AS ok FROM celery_outbox",
    );
    expect(rows).to.deep.equal([{ ok: true }]);
  });

  it('forgets idempotency keys behind their window, and sees rows of newer versions', async () => {
    await db.knex('celery_outbox_idempotency').insert([
      { task_name: 't', key: 'old', task_id: '1', created_at: db.knex.raw("now() - interval '2 days'") },
      { task_name: 't', key: 'new', task_id: '2' },
    ]);
    expect(await purgeKeys(database, names, 86_400_000)).to.equal(1);
    expect(await db.knex('celery_outbox_idempotency').pluck('key')).to.deep.equal(['new']);
    await insertTasks(db.knex, 2, { schema_version: 7 });
    await insertTasks(db.knex, 1);
    expect(await countUnknownVersions(database, names)).to.deep.equal([{ version: 7, count: 2 }]);
  });

  it('ends in time when PostgreSQL falls silent, and keeps no connection for it', async () => {
    const proxy = await createFreezingProxy(db.url);
    const knex = createKnex({
      client: 'pg',
      connection: proxy.url,
      pool: { min: 0, max: 1 },
      log: { warn() {}, error() {} },
    });
    try {
      await knex.raw('SELECT 1');
      proxy.freeze();
      const stuck = settle.releaseRows({ knex, timeoutMs: 200 }, names, { token: 't', ids: ['1'] });
      await rejection('ERR_CELERY_OUTBOX_DATABASE', stuck);
      // The only connection of the pool was thrown away, so there is room for another.
      const again = settle.releaseRows({ knex, timeoutMs: 5_000 }, names, { token: 't', ids: ['1'] });
      expect(await again).to.deep.equal(new Set());
    } finally {
      await proxy.close();
      await knex.destroy();
    }
  });
});
