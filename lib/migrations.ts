export { createMigrationSource, type MigrationSourceOptions } from './store/migrations/migration-source';
export type { TableOptions } from './store/table-names';
