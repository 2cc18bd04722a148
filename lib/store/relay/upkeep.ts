import { SCHEMA_VERSION } from '../insert-rows';
import type { TableNames } from '../table-names';
import { type Database, runStatement } from './statement';

/** How many rows are deleted at a time. Fewer: there are no more. */
export const PURGE_LIMIT = 10_000;
const LOOK_AT = 10_000;

export interface UnknownVersion {
  readonly version: number;
  readonly count: number;
}

/**
 * Rows that a newer version of the package wrote, and that are left alone. Nobody takes them, so they gather at the
 * front of the queue: looking there is enough, and costs the same however long it is. Behind many rows that are paused
 * or held back, fewer may be seen than there are.
 */
export async function countUnknownVersions(database: Database, names: TableNames): Promise<UnknownVersion[]> {
  return runStatement<UnknownVersion>(
    database,
    `SELECT schema_version AS version, count(*)::int AS count
    FROM (
      (SELECT schema_version FROM ${names.outbox}
        WHERE ordering_key IS NULL AND available_at <= now() ORDER BY available_at, id LIMIT ?)
      UNION ALL
      (SELECT schema_version FROM ${names.outbox} WHERE ordering_key > '' ORDER BY ordering_key, id LIMIT ?)
    ) AS oldest
    WHERE schema_version <> ?
    GROUP BY schema_version
    ORDER BY schema_version`,
    [LOOK_AT, LOOK_AT, SCHEMA_VERSION],
  );
}

/** Deletes what was archived before the retention. @returns how many; {@link PURGE_LIMIT} if there may be more */
export async function purgeSent(database: Database, names: TableNames, retentionMs: number): Promise<number> {
  const rows = await runStatement(
    database,
    `DELETE FROM ${names.sent} WHERE id = ANY(ARRAY(
      SELECT id FROM ${names.sent}
      WHERE sent_at < now() - ? * interval '1 millisecond' ORDER BY sent_at, id LIMIT ${String(PURGE_LIMIT)}
    )) RETURNING 1`,
    [retentionMs],
  );
  return rows.length;
}

/** Forgets idempotency keys that are older than their window. @returns as {@link purgeSent} */
export async function purgeKeys(database: Database, names: TableNames, windowMs: number): Promise<number> {
  const rows = await runStatement(
    database,
    `DELETE FROM ${names.idempotency} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${names.idempotency}
      WHERE created_at < now() - ? * interval '1 millisecond' ORDER BY created_at LIMIT ${String(PURGE_LIMIT)}
      FOR UPDATE SKIP LOCKED
    )) RETURNING 1`,
    [windowMs],
  );
  return rows.length;
}
