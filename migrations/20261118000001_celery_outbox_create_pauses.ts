import type { Knex } from 'knex';
import * as createPauses from '../lib/store/migrations/20261118000001-create-pauses';
import { tableNames } from '../lib/store/table-names';

// For the knex CLI in this repository; users get the same through `express-celery-outbox/migrations`.
const names = tableNames({
  schema: process.env['CELERY_OUTBOX_SCHEMA'],
  tableName: process.env['CELERY_OUTBOX_TABLE'],
});

export const up = (knex: Knex): Promise<void> => createPauses.up(knex, names);
export const down = (knex: Knex): Promise<void> => createPauses.down(knex, names);
