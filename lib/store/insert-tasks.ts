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

export interface InsertSettings {
  readonly idempotencyWindowMs: number;
  /** Told of the rows whose INSERT is being issued, in the order of the connection. */
  readonly onInsert: (tasks: readonly OutboxTaskRow[]) => void;
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
 * @returns for each the id of its result: its own, or that of the task that used its key before.
 * @throws ERR_CELERY_OUTBOX_STORE_FAILED with the database's reason; as after any SQL error, the transaction
 * (or the savepoint) is lost.
 */
export async function insertTasks(
  trx: Knex.Transaction,
  names: TableNames,
  tasks: readonly OutboxTaskRow[],
  { idempotencyWindowMs, onInsert }: InsertSettings,
): Promise<string[]> {
  try {
    await lockOrderingKeys(trx, tasks);
    const firstIds = await reserveKeys(trx, names, tasks, idempotencyWindowMs);
    const fresh = tasks.filter((_, index) => !firstIds.has(index));
    if (fresh.length > 0) {
      await insertRows(trx, names, fresh).on('query', () => {
        onInsert(fresh);
      });
    }
    return tasks.map((task, index) => firstIds.get(index) ?? task.resultId);
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

function insertRows(trx: Knex.Transaction, names: TableNames, tasks: readonly OutboxTaskRow[]): Knex.Raw {
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
  return trx.raw(insertStatement(names), columns as Knex.RawBinding[]);
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
