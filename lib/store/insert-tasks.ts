import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import type { EncodedTask } from '../message/encode-task';
import { reasonOf, sqlState } from './database-error';
import { reserveKeys } from './idempotency';
import { lockOrderingKeys } from './ordering-lock';
import type { TableNames } from './table-names';

/** A task as it stands in the table: encoded, with the context of the call that made it. */
export interface OutboxTaskRow extends EncodedTask {
  readonly traceHeaders: string | null;
  readonly logContext: string | null;
  /** The task whose result answers the call: this one, or the one that ends its chain or chord. */
  readonly resultId: string;
}

/** What became of one task: stored, or answered by an earlier one with the same idempotency key. */
export interface InsertOutcome {
  readonly resultId: string;
  readonly stored: boolean;
}

/** The version of the stored form. A relay leaves rows of a version it does not know alone. */
export const SCHEMA_VERSION = 1;

/**
 * Writes any number of tasks with one INSERT, in the order given.
 *
 * With ordering keys, an advisory lock per key is held until the transaction ends, so that among the rows of
 * one key the order of ids is the order of commits. Idempotency keys are reserved first; a task whose key was
 * used before is not written and gets the first one's id.
 *
 * @throws ERR_CELERY_OUTBOX_STORE_FAILED with the database's reason; as after any SQL error, the transaction
 * (or the savepoint) is lost.
 */
export async function insertTasks(
  trx: Knex.Transaction,
  names: TableNames,
  tasks: readonly OutboxTaskRow[],
  idempotencyWindowMs: number,
): Promise<InsertOutcome[]> {
  try {
    await lockOrderingKeys(trx, tasks);
    const firstIds = await reserveKeys(trx, names, tasks, idempotencyWindowMs);
    const outcomes = tasks.map((task, index) => ({
      resultId: firstIds.get(index) ?? task.resultId,
      stored: !firstIds.has(index),
    }));
    await insertRows(
      trx,
      names,
      tasks.filter((_, index) => !firstIds.has(index)),
    );
    return outcomes;
  } catch (error) {
    throw storeFailed(error, names);
  }
}

// available_at is the start of this statement, not of the transaction: it comes after the lock of an ordering
// key was granted, so it rises with the id among the rows of one key.
const insertStatement = (names: TableNames): string => `
  INSERT INTO ${names.outbox} (
    task_id, task_name, args, kwargs, options, redacted_args, redacted_kwargs,
    trace_headers, log_context, ordering_key, schema_version, available_at)
  SELECT task_id, task_name, args::json, kwargs::json, options::json, redacted_args::json, redacted_kwargs::json,
    trace_headers::json, log_context::json, ordering_key, ${String(SCHEMA_VERSION)},
    greatest(hold_until::timestamptz, statement_timestamp())
  FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
    ?::text[], ?::text[], ?::text[], ?::text[]) WITH ORDINALITY AS task (
    task_id, task_name, args, kwargs, options, redacted_args, redacted_kwargs,
    trace_headers, log_context, ordering_key, hold_until, position)
  ORDER BY position`;

async function insertRows(
  trx: Knex.Transaction,
  names: TableNames,
  tasks: readonly OutboxTaskRow[],
): Promise<void> {
  if (tasks.length === 0) return;
  const columns = [
    tasks.map((task) => task.taskId),
    tasks.map((task) => task.taskName),
    tasks.map((task) => task.args),
    tasks.map((task) => task.kwargs),
    tasks.map((task) => task.options),
    tasks.map((task) => task.redactedArgs),
    tasks.map((task) => task.redactedKwargs),
    tasks.map((task) => task.traceHeaders),
    tasks.map((task) => task.logContext),
    tasks.map((task) => task.orderingKey),
    tasks.map((task) => task.holdUntil),
  ];
  await trx.raw(insertStatement(names), columns as Knex.RawBinding[]);
}

const UNDEFINED_TABLE = '42P01';

function storeFailed(error: unknown, names: TableNames): CeleryOutboxError {
  const hint = sqlState(error) === UNDEFINED_TABLE ? `; is ${names.outbox} migrated?` : '';
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_STORE_FAILED',
    `The task was not stored: ${reasonOf(error)}${hint}`,
    { cause: error },
  );
}
