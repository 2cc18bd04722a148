import type { Knex } from 'knex';

const connection = process.env['DATABASE_URL'] ?? '';
if (connection === '') {
  throw new Error('DATABASE_URL must be set, for instance postgres://user@127.0.0.1:5432/shop');
}

const config: Knex.Config = {
  client: 'pg',
  connection,
  migrations: { directory: './migrations', tableName: 'celery_outbox_migrations', extension: 'ts' },
};

export default config;
