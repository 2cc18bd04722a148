import type { Knex } from 'knex';
import type { TableNames } from '../table-names';

// What a task is, in all three tables that hold one. `json`, not `jsonb`: the text goes to the broker as it
// came, so that big integers, key order and \u0000 survive. Trace and log columns have no length limit:
// telemetry must never break a business transaction.
const PAYLOAD = `
  task_id          text NOT NULL,
  task_name        text NOT NULL,
  args             json NOT NULL,
  kwargs           json NOT NULL,
  options          json NOT NULL,
  redacted_args    json,
  redacted_kwargs  json,
  trace_headers    json,
  log_context      json,
  schema_version   smallint NOT NULL DEFAULT 1,
  ordering_key     text`;

export async function up(knex: Knex, names: TableNames): Promise<void> {
  await createSchema(knex, names.schema);
  await knex.raw(outboxTable(names));
  await setInsertVacuum(knex, names);
  await knex.raw(deadLetterTable(names));
  await knex.raw(sentTable(names));
  await knex.raw(idempotencyTable(names));
}

export async function down(knex: Knex, names: TableNames): Promise<void> {
  const tables = [names.outbox, names.deadLetter, names.sent, names.idempotency];
  await knex.raw(`DROP TABLE IF EXISTS ${tables.join(', ')}`);
}

// CREATE SCHEMA IF NOT EXISTS asks for the CREATE privilege even where the schema exists.
async function createSchema(knex: Knex, schema: string | undefined): Promise<void> {
  if (schema === undefined) return;
  const found = await knex.raw<{ rows: unknown[] }>('SELECT 1 FROM pg_namespace WHERE nspname = ?', [schema]);
  if (found.rows.length === 0) await knex.raw(`CREATE SCHEMA "${schema}"`);
}

// A claim and a retry update columns that no index covers (but available_at), so with room left in each page
// they are HOT updates. The table is a queue: vacuum by absolute numbers of dead rows, not by a share.
const outboxTable = (names: TableNames): string => `
  CREATE TABLE ${names.outbox} (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${PAYLOAD},
    retries        smallint NOT NULL DEFAULT 0,
    available_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    claimed_until  timestamptz,
    claimed_by     text,
    last_error     text,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT statement_timestamp()
  ) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
  );
  CREATE INDEX "${names.base}_claim_idx" ON ${names.outbox} (available_at, id) WHERE ordering_key IS NULL;
  CREATE INDEX "${names.base}_ordering_key_idx" ON ${names.outbox} (ordering_key, id) WHERE ordering_key IS NOT NULL;
  CREATE INDEX "${names.base}_task_id_idx" ON ${names.outbox} (task_id)`;

// PostgreSQL 12 does not know these.
async function setInsertVacuum(knex: Knex, names: TableNames): Promise<void> {
  const { rows } = await knex.raw<{ rows: { version: number }[] }>(
    "SELECT current_setting('server_version_num')::int AS version",
  );
  if ((rows[0]?.version ?? 0) < 130_000) return;
  await knex.raw(`
    ALTER TABLE ${names.outbox} SET (
      autovacuum_vacuum_insert_scale_factor = 0,
      autovacuum_vacuum_insert_threshold = 50000
    )`);
}

const deadLetterTable = (names: TableNames): string => `
  CREATE TABLE ${names.deadLetter} (
    id              bigint PRIMARY KEY,
    ${PAYLOAD},
    retries         smallint NOT NULL,
    failure_reason  text NOT NULL,
    last_error      text,
    created_at      timestamptz NOT NULL,
    dead_at         timestamptz NOT NULL DEFAULT statement_timestamp()
  );
  CREATE INDEX "${names.base}_dead_letter_dead_at_idx" ON ${names.deadLetter} (dead_at, id);
  CREATE INDEX "${names.base}_dead_letter_name_idx" ON ${names.deadLetter} (task_name, id);
  CREATE INDEX "${names.base}_dead_letter_task_id_idx" ON ${names.deadLetter} (task_id);
  CREATE INDEX "${names.base}_dead_letter_key_idx" ON ${names.deadLetter} (ordering_key) WHERE ordering_key IS NOT NULL`;

const sentTable = (names: TableNames): string => `
  CREATE TABLE ${names.sent} (
    id          bigint PRIMARY KEY,
    ${PAYLOAD},
    retries     smallint NOT NULL,
    created_at  timestamptz NOT NULL,
    sent_at     timestamptz NOT NULL DEFAULT statement_timestamp()
  );
  CREATE INDEX "${names.base}_sent_sent_at_idx" ON ${names.sent} (sent_at, id);
  CREATE INDEX "${names.base}_sent_task_id_idx" ON ${names.sent} (task_id)`;

const idempotencyTable = (names: TableNames): string => `
  CREATE TABLE ${names.idempotency} (
    task_name   text NOT NULL,
    key         text NOT NULL,
    task_id     text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (task_name, key)
  );
  CREATE INDEX "${names.base}_idempotency_created_at_idx" ON ${names.idempotency} (created_at)`;
