import { expect } from 'chai';
import { PUBLISHED, type PublishOutcome } from '../../../lib/testing';
import { useRelay } from '../../support/relay';
import { insertTasks } from '../../support/relay-rows';
import { fault } from '../../support/scripted-broker';

describe('a settlement that PostgreSQL refuses for good', () => {
  const bundle = useRelay();
  /** From now on the table takes this task no more. */
  const refuse = (table: string, taskId: string): Promise<unknown> =>
    bundle.db.knex.raw(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON ${table}
        FOR EACH ROW WHEN (NEW.task_id = '${taskId}') EXECUTE FUNCTION refuse();`);
  const relent = (): Promise<unknown> => bundle.db.knex.raw('DROP FUNCTION IF EXISTS refuse() CASCADE');
  const letters = (): Promise<string[]> =>
    bundle.db.knex('celery_outbox_dead_letter').orderBy('id').pluck('task_id');
  afterEach(relent);

  it('keeps only the row that is to blame, which is buried when it can be', async () => {
    const bad = await insertTasks(bundle.db.knex, 5, { task_name: 'bad' });
    const later = await insertTasks(bundle.db.knex, 20);
    const poison = bad[2]!;
    await refuse('celery_outbox_dead_letter', poison);
    bundle.broker.answer = ({ taskId }) => (bad.includes(taskId) ? fault() : PUBLISHED);
    const relay = bundle.relay({ maxRetries: 0, batchSize: 5, batchesInFlight: 1 });
    expect(await relay.runOnce()).to.include({ claimed: 25, published: 20, failed: 5, deadLettered: 4 });
    expect(bundle.broker.acknowledged).to.deep.equal(later);
    expect(await letters()).to.deep.equal(bad.filter((id) => id !== poison));
    expect((await bundle.db.rows()).map(({ task_id }) => task_id)).to.deep.equal([poison]);
    expect(bundle.logged('celery_outbox_settle_failed')).to.have.length(1);
    expect(bundle.logged('celery_outbox_lease_lost').map(({ fields }) => fields)).to.deep.equal([
      { rows: 1 },
    ]);

    await relent();
    await bundle.db.knex('celery_outbox').update({ claimed_until: bundle.db.knex.fn.now() });
    await relay.runOnce();
    expect(await letters()).to.have.members(bad);
    expect(await bundle.db.rows()).to.deep.equal([]);
  });

  it('lets the others of its batch be deleted, if the archive refuses one that was sent', async () => {
    const ids = await insertTasks(bundle.db.knex, 5);
    await refuse('celery_outbox_sent', ids[0]!);
    await bundle.relay({ cleanUpAfter: 'never' }).runOnce();
    expect(bundle.broker.acknowledged).to.deep.equal(ids);
    expect((await bundle.db.rows()).map(({ task_id }) => task_id)).to.deep.equal([ids[0]]);
    expect(await bundle.db.knex('celery_outbox_sent').orderBy('id').pluck('task_id')).to.deep.equal(
      ids.slice(1),
    );
  });

  it('is not caused by errors of a broker that say nothing of themselves', async () => {
    const errors: unknown[] = [
      new Error('no code'),
      { message: 5, code: 7 },
      undefined,
      { message: 'a\0b', code: 'C\0D' },
    ];
    await insertTasks(bundle.db.knex, errors.length);
    let next = 0;
    bundle.broker.answer = () => ({ status: 'fault', error: errors[next++] }) as PublishOutcome;
    await bundle.relay({ maxRetries: 0 }).runOnce();
    const reasons = await bundle.db.knex('celery_outbox_dead_letter').orderBy('id').pluck('failure_reason');
    expect(reasons).to.deep.equal([
      ...Array<string>(3).fill('ERR_CELERY_OUTBOX_MESSAGE_REFUSED'),
      'C\u{FFFD}D',
    ]);
    expect(await bundle.db.knex('celery_outbox_dead_letter').orderBy('id').pluck('last_error')).to.deep.equal(
      ['no code', '{ message: 5, code: 7 }', 'undefined', 'a\u{FFFD}b'],
    );
  });
});
