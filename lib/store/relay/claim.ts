import type { StoredTask } from '../../message/stored-task';
import { SCHEMA_VERSION } from '../insert-rows';
import type { TableNames } from '../table-names';
import { type Database, runStatement } from './statement';

/** A row that is ours until its lease ends. */
export interface ClaimedRow extends StoredTask {
  readonly id: string;
  readonly orderingKey: string | null;
  /** How often it has failed. */
  readonly retries: number;
}

/** How far a drain has come. */
export interface Position {
  /** Of the rows without an ordering key before it, all that were eligible are claimed. Null for the start. */
  readonly mark: LowWaterMark | null;
  /** The last ordering key that was looked at; the empty string for the start. */
  readonly key: string;
}

export interface LowWaterMark {
  /** Microseconds since 1970: a Date would lose three digits. */
  readonly availableAt: string;
  readonly id: string;
}

export const START: Position = Object.freeze({ mark: null, key: '' });

export interface ClaimRequest {
  /** Fresh for every claim: whoever settles the rows has to name it. */
  readonly token: string;
  readonly limit: number;
  readonly leaseMs: number;
  readonly after: Position;
  /** Only rows that have been due for so long. */
  readonly minAgeMs: number;
  /** Null for the whole table. */
  readonly partitions: { readonly count: number; readonly owned: readonly number[] } | null;
  /** Whether a dead letter holds back the later rows of its ordering key. */
  readonly deadLettersBlock: boolean;
}

export interface Claim {
  /** In the order in which they are to be published. */
  readonly rows: readonly ClaimedRow[];
  readonly position: Position;
  /** Whether all ordering keys behind the position that was given were looked at. */
  readonly isEnd: boolean;
}

interface Row {
  id: string;
  available_us: string;
  task_id: string;
  task_name: string;
  args: string;
  kwargs: string;
  options: string;
  redacted_args: string | null;
  redacted_kwargs: string | null;
  trace_headers: string | null;
  log_context: string | null;
  ordering_key: string | null;
  retries: number;
}

/** How many rows of one ordering key a claim takes at most: they are published one after another. */
const MAX_RUN = 100;
/** How many ordering keys a claim looks at: some 10 ms of them. */
const MAX_KEYS = 1_000;

/**
 * Takes rows that may be published now: the oldest, and of ordering keys those whose turn it is. Rows that somebody else
 * is claiming are passed over.
 *
 * A row with an ordering key is taken only if it is the first of its key in the table, whatever holds that one back:
 * then the rows behind it come with it, as far as they are eligible without a gap. So nobody else can have a row of
 * that key at the same time.
 *
 * @throws ERR_CELERY_OUTBOX_DATABASE
 */
export async function claimRows(
  database: Database,
  names: TableNames,
  request: ClaimRequest,
): Promise<Claim> {
  const { token, limit, leaseMs, after, minAgeMs, partitions } = request;
  const { mark } = after;
  const partition = partitions === null ? [] : [partitions.count, partitions.owned];
  // Half of a batch is for keys, so that neither kind of rows can keep the other waiting.
  const keyed = Math.ceil(limit / 2);
  const [summary, ...found] = await runStatement<Row>(database, claimStatement(names, request), [
    ...[after.key, MAX_KEYS],
    ...[minAgeMs, ...partition, keyed],
    ...[minAgeMs, ...partition, ...(mark === null ? [] : [mark.availableAt, mark.id]), limit, keyed],
    ...[minAgeMs, keyed],
    ...[leaseMs, token],
  ]);
  const rows = found.sort(byTurn);
  const last = rows.findLast((row) => row.ordering_key === null);
  const isEnd = (summary?.retries ?? 0) < MAX_KEYS;
  return {
    rows: rows.map(toClaimedRow),
    position: {
      mark: last === undefined ? mark : { availableAt: last.available_us, id: last.id },
      key: isEnd ? '' : (summary?.ordering_key ?? ''),
    },
    isEnd,
  };
}

// Ordering keys are walked by their index, from one key to the next, and never row by row: a key of 100,000 rows whose
// first one is held back costs as much as a key of one. Written with > and ORDER BY … LIMIT 1 so that the planner has no
// other way, whatever its statistics say. (As NOT EXISTS of an earlier row, such a key stopped all claims after ANALYZE.)
//
// ARRAY(…) rather than a join: 1.2 times as fast. Pauses are read once per claim, so all relays obey at once. The first
// row that comes back tells how many keys were looked at, and the last of them.
function claimStatement(names: TableNames, { after, partitions, deadLettersBlock }: ClaimRequest): string {
  const isParked = `EXISTS (SELECT FROM ${names.deadLetter} AS dead WHERE dead.ordering_key = task.ordering_key)`;
  const isOurs = partitions === null ? '' : 'AND {hash} % ? = ANY(?::int[])';
  return `
    WITH RECURSIVE paused AS MATERIALIZED (
      SELECT coalesce(array_agg(task_name), '{}') AS names FROM ${names.pause}
    ), key AS (
      (SELECT ordering_key, id, 1 AS visited FROM (${nextKey(names, '?')}) AS first)
      UNION ALL
      SELECT next.ordering_key, next.id, key.visited + 1
      FROM key CROSS JOIN LATERAL (${nextKey(names, 'key.ordering_key')}) AS next
      WHERE key.visited < ?
    ), looked AS MATERIALIZED (
      SELECT ordering_key, id, visited FROM key
    ), keyed AS MATERIALIZED (
      SELECT task.id, task.ordering_key
      FROM ${names.outbox} AS task
      WHERE task.id = ANY(ARRAY(SELECT id FROM looked)) AND ${isEligible('task')}
        ${deadLettersBlock ? `AND NOT ${isParked}` : ''}
        ${isOurs.replace('{hash}', '(hashtextextended(task.ordering_key, 0) & 9223372036854775807)')}
      ORDER BY task.available_at, task.id
      LIMIT ?
      FOR UPDATE OF task SKIP LOCKED
    ), plain AS MATERIALIZED (
      SELECT task.id
      FROM ${names.outbox} AS task
      WHERE task.ordering_key IS NULL AND ${isEligible('task')}
        ${isOurs.replace('{hash}', 'task.id')}
        ${after.mark === null ? '' : "AND (task.available_at, task.id) > ('epoch'::timestamptz + ?::bigint * interval '1 microsecond', ?::bigint)"}
      ORDER BY task.available_at, task.id
      LIMIT (SELECT greatest(1, ? - count(*) * ${RUN}) FROM keyed)
      FOR UPDATE OF task SKIP LOCKED
    ), follower AS (
      SELECT later.id
      FROM keyed
      CROSS JOIN LATERAL (
        SELECT run.id, bool_and(run.ordering_key = keyed.ordering_key AND ${isEligible('run')}) OVER (ORDER BY run.position) AS is_eligible
        FROM (
          SELECT behind.*, row_number() OVER (ORDER BY behind.ordering_key, behind.id) AS position
          FROM (
            SELECT id, ordering_key, task_name, schema_version, available_at, claimed_until
            FROM ${names.outbox}
            WHERE (ordering_key, id) > (keyed.ordering_key, keyed.id)
            ORDER BY ordering_key, id
            LIMIT (SELECT ${RUN} - 1 FROM keyed)
          ) AS behind
        ) AS run
      ) AS later
      WHERE later.is_eligible
    ), claimed AS (
      UPDATE ${names.outbox}
      SET claimed_until = now() + ? * interval '1 millisecond', claimed_by = ?
      WHERE id = ANY(ARRAY(SELECT id FROM plain UNION ALL SELECT id FROM keyed UNION ALL SELECT id FROM follower))
      RETURNING id, (extract(epoch FROM available_at) * 1000000)::bigint AS available_us, task_id, task_name,
        args::text, kwargs::text, options::text, redacted_args::text, redacted_kwargs::text, trace_headers::text,
        log_context::text, ordering_key, retries::int
    )
    SELECT 0::bigint AS id, 0::bigint AS available_us, NULL AS task_id, NULL AS task_name, NULL AS args,
      NULL AS kwargs, NULL AS options, NULL AS redacted_args, NULL AS redacted_kwargs, NULL AS trace_headers,
      NULL AS log_context, (SELECT ordering_key FROM looked ORDER BY visited DESC LIMIT 1),
      (SELECT count(*)::int FROM looked) AS retries
    UNION ALL
    SELECT * FROM claimed`;
}

/** How many rows of each key are taken: fewer, the more keys there are. */
const RUN = `least(${String(MAX_RUN)}, ? / greatest(1, count(*)))`;

/** The first row of the next ordering key. */
const nextKey = (names: TableNames, key: string): string =>
  `SELECT ordering_key, id FROM ${names.outbox} WHERE ordering_key > ${key} ORDER BY ordering_key, id LIMIT 1`;

const isEligible = (row: string): string => `
  ${row}.available_at <= now() - ? * interval '1 millisecond'
  AND (${row}.claimed_until IS NULL OR ${row}.claimed_until <= now())
  AND ${row}.schema_version = ${String(SCHEMA_VERSION)}
  AND NOT (SELECT '' = ANY(names) FROM paused) AND ${row}.task_name <> ALL ((SELECT names FROM paused)::text[])`;

function byTurn(a: Row, b: Row): number {
  return compareDigits(a.available_us, b.available_us) || compareDigits(a.id, b.id);
}

function compareDigits(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : Number(a > b);
}

function toClaimedRow(row: Row): ClaimedRow {
  return {
    id: row.id,
    taskId: row.task_id,
    taskName: row.task_name,
    args: row.args,
    kwargs: row.kwargs,
    options: row.options,
    redactedArgs: row.redacted_args,
    redactedKwargs: row.redacted_kwargs,
    traceHeaders: row.trace_headers,
    logContext: row.log_context,
    orderingKey: row.ordering_key,
    retries: row.retries,
  };
}
