import { expect } from 'chai';
import { createMigrationSource } from '../../lib/migrations';
import { listPauses, pauseTasks, resumeTasks } from '../../lib/store/pauses';
import { tableNames } from '../../lib/store/table-names';
import { createDatabase, type TestDatabase } from '../support/database';
import { rejection } from '../support/rejection';

describe('pauses', () => {
  const names = tableNames();
  let db: TestDatabase;

  before(async () => {
    db = await createDatabase();
  });
  beforeEach(async () => {
    await db.empty();
  });
  after(async () => {
    await db.close();
  });

  const paused = async (): Promise<(string | null)[]> =>
    (await listPauses(db.knex, names)).map(({ taskName }) => taskName);

  it('are none at first, and each has its time', async () => {
    expect(await listPauses(db.knex, names)).to.deep.equal([]);
    await pauseTasks(db.knex, names, 'orders.process');
    const { rows } = await db.knex.raw<{ rows: { now: Date }[] }>('SELECT now()');
    const [pause] = await listPauses(db.knex, names);
    expect(pause?.taskName).to.equal('orders.process');
    expect(pause?.pausedAt).to.be.at.most(rows[0]!.now);
    expect(pause?.pausedAt).to.be.above(new Date(rows[0]!.now.getTime() - 10_000));
  });

  it('are listed oldest first, everything as null', async () => {
    await pauseTasks(db.knex, names, 'b');
    await pauseTasks(db.knex, names, null);
    await pauseTasks(db.knex, names, 'a');
    expect(await paused()).to.deep.equal(['b', null, 'a']);
  });

  it('stay as they are when paused again, also at the same moment', async () => {
    await pauseTasks(db.knex, names, 'a');
    const first = await listPauses(db.knex, names);
    await Promise.all([1, 2, 3].map(() => pauseTasks(db.knex, names, 'a')));
    expect(await listPauses(db.knex, names)).to.deep.equal(first);
    await Promise.all([1, 2, 3].map(() => pauseTasks(db.knex, names, null)));
    expect(await paused()).to.deep.equal(['a', null]);
  });

  it('end one by one: neither a name nor everything ends the other', async () => {
    await pauseTasks(db.knex, names, 'a');
    await pauseTasks(db.knex, names, null);
    expect(await resumeTasks(db.knex, names, 'other')).to.equal(false);
    expect(await resumeTasks(db.knex, names, null)).to.equal(true);
    expect(await resumeTasks(db.knex, names, null)).to.equal(false);
    expect(await paused()).to.deep.equal(['a']);
    expect(await resumeTasks(db.knex, names, 'a')).to.equal(true);
    expect(await paused()).to.deep.equal([]);
  });

  it('refuse names that no task has: an empty one would stop everything', async () => {
    for (const name of ['', 'a\0b', '\ud800', 'x'.repeat(256), undefined]) {
      await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', pauseTasks(db.knex, names, name as string));
      await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', resumeTasks(db.knex, names, name as string));
    }
    expect(await paused()).to.deep.equal([]);
  });

  it('are kept per table, in its schema', async () => {
    const own = { schema: 'Own', tableName: 'Tasks' };
    await db.knex.migrate.latest({
      migrationSource: createMigrationSource(own),
      tableName: 'own_migrations',
    });
    await pauseTasks(db.knex, tableNames(own), 'a');
    expect(await paused()).to.deep.equal([]);
    expect(await listPauses(db.knex, tableNames(own))).to.have.length(1);
  });
});
