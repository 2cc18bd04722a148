import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';

interface KnexClient {
  readonly config?: unknown;
  readonly connectionSettings?: unknown;
  readonly driver?: { readonly Client?: new (settings: unknown) => Target };
}
/** Where a client of pg would connect to. */
interface Target {
  readonly host: string;
  readonly port: number;
  readonly database: string | null;
}

/**
 * A task must be stored in the database of the outbox, or the relay never sees it.
 *
 * @throws ERR_CELERY_OUTBOX_FOREIGN_TRANSACTION
 */
export function assertOwnTransaction(knex: Knex, trx: unknown): asserts trx is Knex.Transaction {
  if (!isTransaction(trx)) {
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_FOREIGN_TRANSACTION',
      `trx must be a Knex transaction, got ${typeof trx === 'function' ? 'a Knex instance or function' : typeof trx}`,
    );
  }
  if (isSameDatabase(knex.client as KnexClient, trx.client as KnexClient)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_FOREIGN_TRANSACTION',
    'trx must be a transaction of the database that the outbox was created with, got one of another',
  );
}

function isTransaction(value: unknown): value is Knex.Transaction {
  return typeof value === 'function' && 'isTransaction' in value && value.isTransaction === true;
}

// A transaction shares its Knex instance's configuration. Another instance may still be for the same database.
function isSameDatabase(ours: KnexClient, theirs: KnexClient): boolean {
  if (ours.config === theirs.config) return true;
  const [a, b] = [targetOf(ours), targetOf(theirs)];
  return a !== undefined && b !== undefined && TARGET.every((key) => a[key] === b[key]);
}

const TARGET = ['host', 'port', 'database'] as const;

// Only pg knows what a connection string, its defaults and the environment come to. Nothing is connected.
function targetOf({ driver, connectionSettings }: KnexClient): Target | undefined {
  return driver?.Client && new driver.Client(connectionSettings);
}
