import { expect } from 'chai';
import { Upkeep } from '../../../lib/relay/upkeep';
import { PURGE_LIMIT } from '../../../lib/store/relay/upkeep';
import { tableNames } from '../../../lib/store/table-names';
import { createDatabase, type TestDatabase } from '../../support/database';
import { recordingLogger } from '../../support/log';

const EXPIRED = 25_000;

describe('upkeep', function () {
  this.timeout(30_000);
  let db: TestDatabase;
  let upkeep: Upkeep;
  let logger: ReturnType<typeof recordingLogger>;
  before(async () => {
    db = await createDatabase();
  });
  beforeEach(async () => {
    await db.empty();
    logger = recordingLogger();
    const settings = { cleanUpAfter: 3_600_000, idempotencyWindowMs: 3_600_000 };
    upkeep = new Upkeep({ knex: db.knex, timeoutMs: 10_000 }, tableNames(), settings, logger);
    await db.knex.raw(`
      INSERT INTO celery_outbox_idempotency (task_name, key, task_id, created_at)
      SELECT 't', n::text, n::text, now() - interval '1 day' FROM generate_series(1, ${String(EXPIRED)}) AS n;
      INSERT INTO celery_outbox_idempotency (task_name, key, task_id) VALUES ('t', 'new', 'new');
      INSERT INTO celery_outbox_sent
        (id, task_id, task_name, args, kwargs, options, schema_version, retries, created_at, sent_at)
      SELECT n, n::text, 't', '[]', '{}', '{}', 1, 0, now(),
        CASE WHEN n = 0 THEN now() ELSE now() - interval '1 day' END
      FROM generate_series(0, ${String(EXPIRED)}) AS n`);
  });
  after(() => db.close());

  async function count(table: string): Promise<number> {
    const [row] = await db.knex<{ count: string }>(table).count({ count: '*' });
    return Number(row?.['count']);
  }

  it('deletes all that has expired in one run, however much it is', async () => {
    await upkeep.run();
    expect(await count('celery_outbox_idempotency')).to.equal(1);
    expect(await count('celery_outbox_sent')).to.equal(1);
    expect(logger.lines).to.deep.equal([]);
  });

  it('ends with the statement that is under way, when it is stopped, and begins no more', async () => {
    upkeep.beat();
    await upkeep.idle();
    expect(await count('celery_outbox_idempotency')).to.be.at.least(EXPIRED - PURGE_LIMIT);
    expect(await count('celery_outbox_sent')).to.equal(EXPIRED + 1);
    upkeep.beat();
    await upkeep.idle();
    expect(await count('celery_outbox_sent')).to.equal(EXPIRED + 1);
  });
});
