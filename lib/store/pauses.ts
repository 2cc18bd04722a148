import type { Knex } from 'knex';
import { checkTaskName } from '../message/task-call';
import type { TableNames } from './table-names';

/** Tasks that no relay claims: those of one name, or all. */
export interface Pause {
  /** Null for everything. */
  readonly taskName: string | null;
  readonly pausedAt: Date;
}

/** What stands in the column for everything. No task can have this name. */
const EVERYTHING = '';

/**
 * From now on no relay claims tasks of this name (null: any task). What is claimed already is still sent. Pausing
 * what is paused changes nothing.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for a name that no task can have.
 */
export async function pauseTasks(knex: Knex, names: TableNames, taskName: string | null): Promise<void> {
  await knex.raw(`INSERT INTO ${names.pause} (task_name) VALUES (?) ON CONFLICT (task_name) DO NOTHING`, [
    columnOf(taskName),
  ]);
}

/**
 * Ends the pause of one name, or the pause of everything (null). Neither ends the other: a name that was paused by
 * itself stays so when everything is resumed.
 *
 * @returns false if there was no such pause.
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for a name that no task can have.
 */
export async function resumeTasks(knex: Knex, names: TableNames, taskName: string | null): Promise<boolean> {
  const { rowCount } = await knex.raw<{ rowCount: number }>(
    `DELETE FROM ${names.pause} WHERE task_name = ?`,
    [columnOf(taskName)],
  );
  return rowCount > 0;
}

/** All pauses, oldest first. */
export async function listPauses(knex: Knex, names: TableNames): Promise<Pause[]> {
  const { rows } = await knex.raw<{ rows: { task_name: string; paused_at: Date }[] }>(
    `SELECT task_name, paused_at FROM ${names.pause} ORDER BY paused_at, task_name`,
  );
  return rows.map((row) => ({
    taskName: row.task_name === EVERYTHING ? null : row.task_name,
    pausedAt: row.paused_at,
  }));
}

function columnOf(taskName: string | null): string {
  return taskName === null ? EVERYTHING : checkTaskName(taskName);
}
