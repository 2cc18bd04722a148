import type { TableNames } from '../table-names';
import { type Database, runStatement } from './statement';

const PAYLOAD = `task_id, task_name, args, kwargs, options, redacted_args, redacted_kwargs, trace_headers, log_context,
  schema_version, ordering_key`;

/** Rows that were claimed with one token. Only those that still carry it are changed: the others have a new owner. */
export interface Claimed {
  readonly token: string;
  readonly ids: readonly string[];
}

export interface Failure {
  readonly id: string;
  readonly error: string;
}
export interface RetriedRow extends Failure {
  readonly delayMs: number;
}
export interface DeadRow extends Failure {
  readonly reason: string;
  /** How often it has failed, this time included. */
  readonly retries: number;
}

/** Each answers with the ids of the rows that it changed. @throws ERR_CELERY_OUTBOX_DATABASE */
type Settled = Promise<ReadonlySet<string>>;

/** The broker has them. */
export function deleteRows(database: Database, names: TableNames, { token, ids }: Claimed): Settled {
  const sql = `DELETE FROM ${names.outbox} WHERE id = ANY(?::bigint[]) AND claimed_by = ? RETURNING id`;
  return idsOf(database, sql, [ids, token]);
}

/** The same, and they are kept in the archive. */
export function archiveRows(database: Database, names: TableNames, { token, ids }: Claimed): Settled {
  const sql = `
    WITH gone AS (
      DELETE FROM ${names.outbox} WHERE id = ANY(?::bigint[]) AND claimed_by = ?
      RETURNING id, ${PAYLOAD}, retries, created_at
    )
    INSERT INTO ${names.sent} (id, ${PAYLOAD}, retries, created_at)
    SELECT id, ${PAYLOAD}, retries, created_at FROM gone
    RETURNING id`;
  return idsOf(database, sql, [ids, token]);
}

/** They failed, and are tried again after a while. */
export function retryRows(
  database: Database,
  names: TableNames,
  token: string,
  rows: readonly RetriedRow[],
): Settled {
  const sql = `
    UPDATE ${names.outbox} AS task
    SET retries = task.retries + 1, last_error = failed.error, claimed_until = NULL, claimed_by = NULL,
      available_at = now() + failed.delay_ms * interval '1 millisecond', updated_at = now()
    FROM unnest(?::bigint[], ?::text[], ?::float8[]) AS failed (id, error, delay_ms)
    WHERE task.id = failed.id AND task.claimed_by = ?
    RETURNING task.id`;
  const columns = [
    rows.map(({ id }) => id),
    rows.map(({ error }) => error),
    rows.map(({ delayMs }) => delayMs),
  ];
  return idsOf(database, sql, [...columns, token]);
}

/** They have failed too often: moved to the dead letters, with the reason. */
export function buryRows(
  database: Database,
  names: TableNames,
  token: string,
  rows: readonly DeadRow[],
): Settled {
  const sql = `
    WITH failed AS (
      SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::int[]) AS failed (id, reason, error, retries)
    ), gone AS (
      DELETE FROM ${names.outbox} WHERE id = ANY(ARRAY(SELECT id FROM failed)) AND claimed_by = ?
      RETURNING id, ${PAYLOAD}, created_at
    )
    INSERT INTO ${names.deadLetter} (id, ${PAYLOAD}, retries, failure_reason, last_error, created_at)
    SELECT gone.id, ${PAYLOAD}, failed.retries, failed.reason, failed.error, gone.created_at
    FROM gone JOIN failed ON failed.id = gone.id
    RETURNING id`;
  const columns = [
    rows.map(({ id }) => id),
    rows.map(({ reason }) => reason),
    rows.map(({ error }) => error),
    rows.map(({ retries }) => retries),
  ];
  return idsOf(database, sql, [...columns, token]);
}

/** The broker was away: they wait for it, and lose no retry. */
export function deferRows(
  database: Database,
  names: TableNames,
  token: string,
  rows: readonly Failure[],
  delayMs: number,
): Settled {
  const sql = `
    UPDATE ${names.outbox} AS task
    SET last_error = deferred.error, claimed_until = NULL, claimed_by = NULL,
      available_at = now() + ? * interval '1 millisecond', updated_at = now()
    FROM unnest(?::bigint[], ?::text[]) AS deferred (id, error)
    WHERE task.id = deferred.id AND task.claimed_by = ?
    RETURNING task.id`;
  const columns = [rows.map(({ id }) => id), rows.map(({ error }) => error)];
  return idsOf(database, sql, [delayMs, ...columns, token]);
}

/** They were never handed to the broker: whoever comes next may have them. */
export function releaseRows(database: Database, names: TableNames, { token, ids }: Claimed): Settled {
  const sql = `
    UPDATE ${names.outbox} SET claimed_until = NULL, claimed_by = NULL
    WHERE id = ANY(?::bigint[]) AND claimed_by = ?
    RETURNING id`;
  return idsOf(database, sql, [ids, token]);
}

/** They are still being worked on. */
export function renewRows(
  database: Database,
  names: TableNames,
  { token, ids }: Claimed,
  leaseMs: number,
): Settled {
  const sql = `
    UPDATE ${names.outbox} SET claimed_until = now() + ? * interval '1 millisecond'
    WHERE id = ANY(?::bigint[]) AND claimed_by = ?
    RETURNING id`;
  return idsOf(database, sql, [leaseMs, ids, token]);
}

async function idsOf(database: Database, sql: string, bindings: readonly unknown[]): Settled {
  const rows = await runStatement<{ id: string }>(database, sql, bindings);
  return new Set(rows.map(({ id }) => id));
}
