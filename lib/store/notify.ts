import { createHash } from 'node:crypto';
import type { OwnConnection } from './own-connection';
import type { TableNames } from './table-names';

/** PostgreSQL refuses a longer one in pg_notify, and cuts it without an error in LISTEN. */
const MAX_CHANNEL_BYTES = 63;
const HASH_CHARACTERS = 16;

/** Where the writers of one outbox tell its relays that there is something to send. */
export function wakeUpChannel({ schema, base }: TableNames): string {
  // Plain identifiers: a character is a byte.
  const name = `celery_outbox:${schema === undefined ? '' : `${schema}.`}${base}`;
  if (name.length <= MAX_CHANNEL_BYTES) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, HASH_CHARACTERS);
  return `${name.slice(0, MAX_CHANNEL_BYTES - HASH_CHARACTERS - 1)}:${hash}`;
}

/** Wakes the relays. Outside any transaction: PostgreSQL lets commits that notify go only one after another. */
export function notify(connection: OwnConnection, names: TableNames, timeoutMs: number): Promise<void> {
  return connection.run("SELECT pg_notify($1, '')", [wakeUpChannel(names)], timeoutMs);
}

/** From its answer on, the connection is told of every NOTIFY. */
export function listen(connection: OwnConnection, names: TableNames, timeoutMs: number): Promise<void> {
  return connection.run(`LISTEN "${wakeUpChannel(names)}"`, [], timeoutMs);
}

/** Asks for a sign of life. */
export function ping(connection: OwnConnection, timeoutMs: number): Promise<void> {
  return connection.run('SELECT 1', [], timeoutMs);
}
