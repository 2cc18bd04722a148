import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import type { EncodedTask } from '../message/encode-task';
import type { OutboxTaskRow } from '../store/insert-rows';
import { insertTasks } from '../store/insert-tasks';
import { logEvent } from '../telemetry/logger';
import type { CallSite } from './call-site';
import type { OutboxHome } from './home';
import type { Batch } from './transaction-ledger';
import { UnitOfWork } from './unit-of-work';

/**
 * Writes tasks with the context of the caller: in its transaction, or outside any in one of their own.
 *
 * @param resultId - where the result will be, if it is not each task's own.
 * @returns for each the id of its result: or that of the earlier task with the same idempotency key.
 * @throws ERR_CELERY_OUTBOX_NO_TRANSACTION, ERR_CELERY_OUTBOX_TRANSACTION_SETTLED, ERR_CELERY_OUTBOX_STORE_FAILED
 */
export async function storeTasks(
  home: OutboxHome,
  { trx, within, context }: CallSite,
  tasks: readonly EncodedTask[],
  resultId?: string,
): Promise<string[]> {
  if (tasks.length === 0) return [];
  const rows = tasks.map((task) => ({ ...task, ...context, resultId: resultId ?? task.taskId }));
  const batch: Batch = { within, tasks: [] };
  if (trx !== undefined) return storeIn(home, trx, rows, batch);
  noteMissingTransaction(home, rows);
  return UnitOfWork.run(home, (own) => storeIn(home, own, rows, batch));
}

async function storeIn(
  home: OutboxHome,
  trx: Knex.Transaction,
  rows: readonly OutboxTaskRow[],
  batch: Batch,
): Promise<string[]> {
  const { names, idempotencyWindowMs } = home.settings;
  const ledger = home.ledgers.of(trx);
  ledger.assertOpen(trx);
  const onInsert = (inserted: readonly OutboxTaskRow[]): void => {
    batch.tasks = inserted.map(({ taskId, taskName, orderingKey }) => ({ taskId, taskName, orderingKey }));
    ledger.record(batch);
  };
  try {
    return await ledger.inTurn(() => insertTasks(trx, names, rows, { idempotencyWindowMs, onInsert }));
  } catch (error) {
    batch.tasks = [];
    throw error;
  }
}

function noteMissingTransaction({ settings }: OutboxHome, rows: readonly OutboxTaskRow[]): void {
  const taskNames = [...new Set(rows.map((row) => row.taskName))];
  if (settings.strict) {
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_NO_TRANSACTION',
      `${taskNames.join(', ')} was sent outside a transaction, which strict refuses: use outbox.transaction(), or give trx`,
    );
  }
  logEvent(settings.logger, 'warn', 'celery_outbox_not_in_transaction', { task_names: taskNames });
}
