import type { Knex } from 'knex';
import * as createTables from '../lib/store/migrations/20261118000000-create-tables';
import { tableNames } from '../lib/store/table-names';

// For the knex CLI in this repository; users get the same through `express-celery-outbox/migrations`.
const names = tableNames({
  schema: process.env['CELERY_OUTBOX_SCHEMA'],
  tableName: process.env['CELERY_OUTBOX_TABLE'],
});

export const up = (knex: Knex): Promise<void> => createTables.up(knex, names);
export const down = (knex: Knex): Promise<void> => createTables.down(knex, names);
