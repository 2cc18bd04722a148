import { randomBytes } from 'node:crypto';
import createKnex, { type Knex } from 'knex';
import { createMigrationSource } from '../../lib/migrations';
import { service } from './services';

/** A database of its own for one test file, cloned from a migrated template. */
export interface TestDatabase {
  readonly url: string;
  readonly knex: Knex;
  /** The rows of the outbox in order, JSON columns as text. */
  rows(): Promise<OutboxRow[]>;
  /** Connections of the pool that are in use: none, when no transaction is open. */
  inUse(): number;
  empty(): Promise<void>;
  /** Drops it; fails if a test left a transaction or a connection behind. */
  close(): Promise<void>;
}

export interface OutboxRow {
  id: string;
  task_id: string;
  task_name: string;
  args: string;
  kwargs: string;
  options: string;
  redacted_args: string | null;
  redacted_kwargs: string | null;
  trace_headers: string | null;
  log_context: string | null;
  schema_version: number;
  ordering_key: string | null;
  retries: number;
  available_at: Date;
  created_at: Date;
}

const JSON_COLUMNS = [
  'args',
  'kwargs',
  'options',
  'redacted_args',
  'redacted_kwargs',
  'trace_headers',
  'log_context',
];
const TABLES = [
  'celery_outbox',
  'celery_outbox_dead_letter',
  'celery_outbox_sent',
  'celery_outbox_idempotency',
  'celery_outbox_pause',
  'orders',
  'parents',
];
// Broken connections are what many tests are about; knex would print each of them.
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} };
let template: Promise<string> | undefined;

export async function createDatabase(pool: Knex.PoolConfig = { min: 0, max: 10 }): Promise<TestDatabase> {
  const source = await (template ??= createTemplate());
  const name = uniqueName('test');
  await asAdmin((admin) => admin.raw('CREATE DATABASE ?? TEMPLATE ??', [name, source]));
  const url = await urlOf(name);
  const knex = createKnex({ client: 'pg', connection: url, pool, log: SILENT });
  const inUse = (): number => (knex.client as { pool: { numUsed(): number } }).pool.numUsed();
  return {
    url,
    knex,
    inUse,
    rows: () =>
      knex('celery_outbox')
        .select('*', ...JSON_COLUMNS.map((column) => knex.raw('??::text', [column])))
        .orderBy('id'),
    async empty() {
      await knex.raw(`TRUNCATE ${TABLES.join(', ')} RESTART IDENTITY CASCADE`);
    },
    async close() {
      const used = inUse();
      const open = await knex('pg_stat_activity')
        .where({ datname: name })
        .whereRaw("state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()")
        .pluck('query');
      await knex.destroy();
      await asAdmin((admin) => admin.raw('DROP DATABASE ?? WITH (FORCE)', [name]));
      if (used > 0) throw new Error(`${String(used)} pool connections are still in use`);
      if (open.length > 0) throw new Error(`transactions are still open: ${open.join('; ')}`);
    },
  };
}

export async function dropTemplate(): Promise<void> {
  const name = await template;
  if (name !== undefined) await asAdmin((admin) => admin.raw('DROP DATABASE ??', [name]));
}

async function createTemplate(): Promise<string> {
  const name = uniqueName('template');
  await asAdmin((admin) => admin.raw('CREATE DATABASE ??', [name]));
  const knex = createKnex({ client: 'pg', connection: await urlOf(name), pool: { min: 0, max: 1 } });
  try {
    await knex.migrate.latest({
      migrationSource: createMigrationSource(),
      tableName: 'celery_outbox_migrations',
    });
    await knex.raw(`
      CREATE TABLE orders (id serial PRIMARY KEY, note text UNIQUE);
      CREATE TABLE parents (id int PRIMARY KEY);
      ALTER TABLE orders ADD parent_id int REFERENCES parents DEFERRABLE INITIALLY DEFERRED`);
  } finally {
    await knex.destroy();
  }
  return name;
}

async function asAdmin(work: (admin: Knex) => PromiseLike<unknown>): Promise<void> {
  const { url } = await service('postgres');
  const admin = createKnex({ client: 'pg', connection: url, pool: { min: 0, max: 1 } });
  try {
    await work(admin);
  } finally {
    await admin.destroy();
  }
}

async function urlOf(name: string): Promise<string> {
  const url = new URL((await service('postgres')).url);
  url.pathname = `/${name}`;
  return url.href;
}

const uniqueName = (kind: string): string => `outbox_${kind}_${randomBytes(6).toString('hex')}`;
