import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import { reasonOf, sqlState } from './database-error';
import { reserveKeys } from './idempotency';
import { insertRows, type OutboxTaskRow } from './insert-rows';
import { lockOrderingKeys } from './ordering-lock';
import type { TableNames } from './table-names';

export interface InsertSettings {
  readonly idempotencyWindowMs: number;
  /** Told of the rows whose INSERT is being issued, in the order of the connection. */
  readonly onInsert: (tasks: readonly OutboxTaskRow[]) => void;
}

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

const UNDEFINED_TABLE = '42P01';

function storeFailed(error: unknown, names: TableNames): CeleryOutboxError {
  const hint = sqlState(error) === UNDEFINED_TABLE ? `; is ${names.outbox} migrated?` : '';
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_STORE_FAILED',
    `The task was not stored: ${reasonOf(error)}${hint}`,
    { cause: error },
  );
}
