import type { Knex } from 'knex';
import { assertOptions, isFunction, isRecord, type Rule, type Rules } from '../../assert-options';
import { tableNames, type TableNames, type TableOptions } from '../table-names';
import * as createTables from './20261118000000-create-tables';
import * as createPauses from './20261118000001-create-pauses';

interface OutboxMigration {
  up(knex: Knex, names: TableNames): Promise<void>;
  down(knex: Knex, names: TableNames): Promise<void>;
}

// Names without an extension: knex identifies a migration by its name in the table, and a `.ts` here would
// not be the `.js` of the published package.
const MIGRATIONS: ReadonlyMap<string, OutboxMigration> = new Map([
  ['20261118000000_celery_outbox_create_tables', createTables],
  ['20261118000001_celery_outbox_create_pauses', createPauses],
]);

export interface MigrationSourceOptions extends TableOptions {
  /**
   * Your own migrations, to run both from one migrations table. Knex refuses a table with names that its
   * source does not list, so sharing a table means sharing a source.
   */
  include?: Knex.MigrationSource<unknown>;
}

// Names are checked where they become SQL.
const name: Rule = { expected: 'a plain SQL identifier', check: () => true };
const MIGRATION_RULES: Rules = {
  tableName: name,
  schema: name,
  include: {
    expected: 'a MigrationSource of knex',
    check: (value) =>
      isRecord(value) && isFunction(value['getMigrations']) && isFunction(value['getMigration']),
  },
};

interface Entry {
  name: string;
  source: Knex.MigrationSource<unknown>;
  spec: unknown;
}

/**
 * The outbox's migrations for `knex.migrate.latest({ migrationSource, tableName })`.
 *
 * Alone, give them a migrations table of their own (`tableName: 'celery_outbox_migrations'`); with `include`
 * they run in name order between your own, from your table.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION for a schema or table name that is not a plain identifier.
 */
export function createMigrationSource(options: MigrationSourceOptions = {}): Knex.MigrationSource<unknown> {
  assertOptions('createMigrationSource', MIGRATION_RULES, options);
  const own = outboxSource(tableNames(options));
  const sources = options.include === undefined ? [own] : [own, options.include];
  return {
    async getMigrations(loadExtensions) {
      const lists = await Promise.all(sources.map((source) => entriesOf(source, loadExtensions)));
      return lists.flat().sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    getMigrationName: (entry) => (entry as Entry).name,
    getMigration: (entry) => (entry as Entry).source.getMigration((entry as Entry).spec),
  };
}

async function entriesOf(
  source: Knex.MigrationSource<unknown>,
  loadExtensions: readonly string[],
): Promise<Entry[]> {
  const specs = await source.getMigrations(loadExtensions);
  return specs.map((spec) => ({ name: source.getMigrationName(spec), source, spec }));
}

function outboxSource(names: TableNames): Knex.MigrationSource<unknown> {
  return {
    getMigrations: () => Promise.resolve([...MIGRATIONS.keys()]),
    getMigrationName: (name) => name as string,
    getMigration: (name) => {
      const migration = MIGRATIONS.get(name as string);
      if (migration === undefined)
        return Promise.reject(new Error(`no outbox migration named ${String(name)}`));
      return Promise.resolve({
        up: (knex: Knex) => migration.up(knex, names),
        down: (knex: Knex) => migration.down(knex, names),
      });
    },
  };
}
