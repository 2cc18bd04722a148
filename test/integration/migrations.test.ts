import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createOutbox } from '../../lib';
import { createMigrationSource } from '../../lib/migrations';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { recordingLogger } from '../support/log';

const TABLES = [
  'celery_outbox',
  'celery_outbox_dead_letter',
  'celery_outbox_idempotency',
  'celery_outbox_pause',
  'celery_outbox_sent',
];
const NAMES = ['20261118000000_celery_outbox_create_tables', '20261118000001_celery_outbox_create_pauses'];

describe('migrations', () => {
  let db: TestDatabase;

  before(async () => {
    db = await createDatabase();
  });
  after(async () => {
    await db.close();
  });

  const tablesOf = (schema: string): Promise<string[]> =>
    db.knex('pg_tables').where({ schemaname: schema }).orderBy('tablename').pluck('tablename');

  /** A schema of its own for one test, as the place of what has no schema given. */
  async function inSchema(work: (knex: Knex, schema: string) => Promise<void>): Promise<void> {
    const schema = `s_${randomBytes(4).toString('hex')}`;
    await db.knex.raw('CREATE SCHEMA ??', [schema]);
    const knex = createKnex({
      client: 'pg',
      connection: db.url,
      searchPath: [schema],
      pool: { min: 0, max: 2 },
    });
    try {
      await work(knex, schema);
    } finally {
      await knex.destroy();
    }
  }

  it('go up and down, with a migrations table of their own', () =>
    inSchema(async (knex, schema) => {
      const config = { migrationSource: createMigrationSource(), tableName: 'celery_outbox_migrations' };
      await knex.migrate.latest(config);
      await knex.migrate.latest(config);
      expect(await tablesOf(schema)).to.include.members(TABLES);
      expect(await knex('celery_outbox_migrations').orderBy('id').pluck('name')).to.deep.equal(NAMES);
      await knex.migrate.rollback(config);
      expect(await tablesOf(schema)).not.to.include.members(TABLES);
      expect(await tablesOf(schema)).to.have.members([
        'celery_outbox_migrations',
        'celery_outbox_migrations_lock',
      ]);
    }));

  it('go down and up one by one', () =>
    inSchema(async (knex, schema) => {
      const config = { migrationSource: createMigrationSource(), tableName: 'celery_outbox_migrations' };
      await knex.migrate.latest(config);
      await knex.migrate.down(config);
      expect(await tablesOf(schema))
        .to.include('celery_outbox')
        .and.not.include('celery_outbox_pause');
      await knex.migrate.up(config);
      expect(await tablesOf(schema)).to.include.members(TABLES);
    }));

  it('take another schema, which they create, and another table name', () =>
    inSchema(async (knex, schema) => {
      const names = { schema: `${schema}_Own`, tableName: 'Tasks' };
      const config = { migrationSource: createMigrationSource(names), tableName: 'own_migrations' };
      await knex.migrate.latest(config);
      expect(await tablesOf(names.schema)).to.have.members([
        'Tasks',
        'Tasks_dead_letter',
        'Tasks_idempotency',
        'Tasks_pause',
        'Tasks_sent',
      ]);
      const outbox = createOutbox({ knex: db.knex, logger: recordingLogger(), ...names });
      await outbox.transaction(() =>
        outbox.celery.sendTask('t', [], {}, { idempotencyKey: 'i', orderingKey: 'o' }),
      );
      expect(await db.knex.withSchema(names.schema).from('Tasks').pluck('task_name')).to.deep.equal(['t']);
      await outbox.close();
      await knex.migrate.rollback(config);
      expect(await tablesOf(names.schema)).to.deep.equal([]);
    }));

  it('need no CREATE on the database if the schema is there', async () => {
    const role = `role_${randomBytes(4).toString('hex')}`;
    await db.knex.raw(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'; CREATE SCHEMA AUTHORIZATION ${role}`);
    const url = new URL(db.url);
    [url.username, url.password] = [role, 'secret'];
    const knex = createKnex({
      client: 'pg',
      connection: url.href,
      searchPath: [role],
      pool: { min: 0, max: 1 },
    });
    try {
      await expectRefused(knex.raw('CREATE SCHEMA another'));
      const config = {
        migrationSource: createMigrationSource({ schema: role }),
        tableName: 'own_migrations',
      };
      await knex.migrate.latest(config);
      expect(await tablesOf(role)).to.include.members(TABLES);
    } finally {
      await knex.destroy();
      await db.knex.raw(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
    }
  });

  it("run in name order between the user's own, from one table", () =>
    inSchema(async (knex, schema) => {
      const ran: string[] = [];
      const include: Knex.MigrationSource<string> = {
        getMigrations: () => Promise.resolve(['20200101000000_first.js', '20990101000000_last.js']),
        getMigrationName: (name) => name,
        getMigration: (name) =>
          Promise.resolve({
            up: async (trx) => {
              ran.push(`${name} ${String(await trx.schema.hasTable('celery_outbox'))}`);
            },
            down: () => Promise.resolve(),
          }),
      };
      const own = { migrationSource: include, tableName: 'knex_migrations' };
      const migrationSource = createMigrationSource({ include: include });
      const shared = { migrationSource, tableName: 'knex_migrations' };
      await knex.migrate.latest(shared);
      expect(ran).to.deep.equal(['20200101000000_first.js false', '20990101000000_last.js true']);
      const names = await knex('knex_migrations').orderBy('id').pluck('name');
      expect(names).to.deep.equal(['20200101000000_first.js', ...NAMES, '20990101000000_last.js']);
      await expectRefused(knex.migrate.latest(own));
      await knex.migrate.rollback(shared, true);
      expect(await tablesOf(schema)).not.to.include.oneOf(TABLES);
    }));

  it('refuse options that do not exist, and an include that is no source', () => {
    const create = createMigrationSource as (options: unknown) => unknown;
    expect(() => create({ tablename: 'x' })).to.throw(
      /no option "tablename", only: tableName, schema, include/,
    );
    expect(() => create({ include: 'x' })).to.throw(/include must be a MigrationSource of knex, got "x"/);
    expect(() => create(null)).to.throw(/must be given an object of options, got null/);
  });

  it('refuse names that are no plain identifiers', () => {
    for (const options of [
      { schema: 'a"b' },
      { tableName: 'a.b' },
      { tableName: 'x'.repeat(37) },
      { tableName: '' },
    ]) {
      expect(() => createMigrationSource(options))
        .to.throw(/must be a plain SQL identifier/)
        .with.property('code', 'ERR_CELERY_OUTBOX_INVALID_OPTION');
    }
  });

  describe('make tables', () => {
    const payload = [
      'task_id text!',
      'task_name text!',
      'args json!',
      'kwargs json!',
      'options json!',
      'redacted_args json',
      'redacted_kwargs json',
      'trace_headers json',
      'log_context json',
      'schema_version int2!',
      'ordering_key text',
    ];
    const columns: Record<string, string[]> = {
      celery_outbox: [
        'id int8!',
        ...payload,
        'retries int2!',
        'available_at timestamptz!',
        'claimed_until timestamptz',
        'claimed_by text',
        'last_error text',
        'created_at timestamptz!',
        'updated_at timestamptz!',
      ],
      celery_outbox_dead_letter: [
        'id int8!',
        ...payload,
        'retries int2!',
        'failure_reason text!',
        'last_error text',
        'created_at timestamptz!',
        'dead_at timestamptz!',
      ],
      celery_outbox_sent: [
        'id int8!',
        ...payload,
        'retries int2!',
        'created_at timestamptz!',
        'sent_at timestamptz!',
      ],
      celery_outbox_idempotency: ['task_name text!', 'key text!', 'task_id text!', 'created_at timestamptz!'],
      celery_outbox_pause: ['task_name text!', 'paused_at timestamptz!'],
    };
    for (const [table, expected] of Object.entries(columns)) {
      it(`with the columns of ${table}`, async () => {
        const { rows } = await db.knex.raw<{ rows: { shown: string }[] }>(
          `SELECT column_name || ' ' || udt_name || CASE is_nullable WHEN 'NO' THEN '!' ELSE '' END AS shown
           FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ? ORDER BY ordinal_position`,
          [table],
        );
        expect(rows.map((row) => row.shown)).to.deep.equal(expected);
      });
    }

    it('with the indexes that the relay needs, and no more on the table that is written to', async () => {
      const indexes = await db
        .knex('pg_indexes')
        .where({ schemaname: 'public', tablename: 'celery_outbox' })
        .pluck<string[]>('indexdef');
      expect(indexes.map((definition) => definition.replace(/^.* USING btree /, '')).sort()).to.deep.equal([
        '(available_at, id) WHERE (ordering_key IS NULL)',
        '(id)',
        '(ordering_key, id) WHERE (ordering_key IS NOT NULL)',
        '(task_id)',
      ]);
    });

    it('with room for most claims to be HOT updates: they touch no index', async () => {
      const [options] = await db
        .knex('pg_class')
        .where({ relname: 'celery_outbox' })
        .pluck<string[][]>('reloptions');
      expect(options).to.include.members(['fillfactor=50', 'autovacuum_vacuum_scale_factor=0']);
      const outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
      await outbox.transaction(() =>
        outbox.celery.sendTasks(Array.from({ length: 500 }, () => ({ name: 't', args: ['x'.repeat(100)] }))),
      );
      await outbox.close();
      await db.knex('celery_outbox').update({
        claimed_until: db.knex.raw("now() + interval '1 minute'"),
        claimed_by: randomBytes(16).toString('hex'),
      });
      await eventually(async () => {
        const [stats] = await db
          .knex('pg_stat_user_tables')
          .where({ relname: 'celery_outbox', schemaname: 'public' })
          .select<{ n_tup_upd: string; n_tup_hot_upd: string }[]>('n_tup_upd', 'n_tup_hot_upd');
        expect(stats?.n_tup_upd).to.equal('500');
        // Not all: a claimed row is longer than before, so a page that was half full cannot take all of its own again.
        expect(Number(stats?.n_tup_hot_upd)).to.be.above(400);
      });
    });
  });

  describe('by the knex CLI', () => {
    const knexCli = (command: string, env: NodeJS.ProcessEnv): Promise<{ code: number; output: string }> =>
      new Promise((done) => {
        const { DATABASE_URL: _url, ...rest } = process.env;
        execFile(
          'npm',
          ['run', '-s', 'knex', '--', command],
          { cwd: resolve(__dirname, '../..'), env: { ...rest, ...env } },
          (error, stdout, stderr) => {
            done({ code: error === null ? 0 : Number(error.code), output: stdout + stderr });
          },
        );
      });

    it('go up and down from knexfile.ts', () =>
      inSchema(async (_knex, schema) => {
        const url = new URL(db.url);
        url.searchParams.set('options', `-c search_path=${schema}`);
        const env = { DATABASE_URL: url.href };
        const up = await knexCli('migrate:latest', env);
        expect(up.output).to.include('Batch 1 run: 2 migrations');
        expect(up.code).to.equal(0);
        expect(await tablesOf(schema)).to.include.members(TABLES);
        const down = await knexCli('migrate:rollback', env);
        expect(down.output).to.include('rolled back: 2 migrations');
        expect(await tablesOf(schema)).not.to.include.oneOf(TABLES);
      })).timeout(30_000);

    it('say what is missing without DATABASE_URL', async () => {
      for (const env of [{}, { DATABASE_URL: '' }]) {
        const { code, output } = await knexCli('migrate:latest', env);
        expect(code).not.to.equal(0);
        expect(output).to.include('DATABASE_URL must be set');
      }
    }).timeout(30_000);
  });
});

async function expectRefused(promise: PromiseLike<unknown>): Promise<void> {
  let refused = false;
  try {
    await promise;
  } catch {
    refused = true;
  }
  expect(refused, 'refused').to.equal(true);
}
