import type { Knex } from 'knex';
import type { TableNames } from '../table-names';

// One row for each task that is paused; the empty name, which no task can have, stands for all of them.
export async function up(knex: Knex, names: TableNames): Promise<void> {
  await knex.raw(`
    CREATE TABLE ${names.pause} (
      task_name  text PRIMARY KEY,
      paused_at  timestamptz NOT NULL DEFAULT statement_timestamp()
    )`);
}

export async function down(knex: Knex, names: TableNames): Promise<void> {
  await knex.raw(`DROP TABLE IF EXISTS ${names.pause}`);
}
