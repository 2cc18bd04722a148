import type { Knex } from 'knex';

// The parts of knex's PostgreSQL client and of pg's Client that are not in their types. All three have been
// there since knex 0.95; the tests that cancel and sever fail if one goes away.
interface RawConnection {
  __knex__disposed?: unknown;
  connection: { stream: { destroy(): void } };
}
interface PoolClient {
  acquireConnection(): Promise<RawConnection>;
  cancelQuery(connection: RawConnection): Promise<unknown>;
}

/** Asks PostgreSQL, on a connection outside the pool, to cancel the statement that `trx` is running. */
export async function cancelStatement(knex: Knex, trx: Knex.Transaction): Promise<void> {
  const connection = await (trx.client as PoolClient).acquireConnection();
  await (knex.client as PoolClient).cancelQuery(connection);
}

/** Cuts the connection of `trx`, so that neither it nor the pool waits for an answer that never comes. */
export async function severConnection(trx: Knex.Transaction, reason: Error): Promise<void> {
  const connection = await (trx.client as PoolClient).acquireConnection();
  connection.__knex__disposed = reason;
  connection.connection.stream.destroy();
}
