import type { Knex } from 'knex';
import { isRefusal } from './database-error';

// The parts of knex's PostgreSQL client and of pg's Client that are not in their types. All have been there
// since knex 0.95; the tests that cancel and sever fail if one goes away.
interface PoolClient {
  acquireConnection(): Promise<RawConnection>;
  cancelQuery(connection: RawConnection): Promise<unknown>;
}
interface RawConnection {
  __knex__disposed?: unknown;
  connection: { stream: { destroy(): void } };
}

/** The database connection that a transaction holds. */
export interface HeldConnection {
  /** Asks PostgreSQL, on a connection outside the pool, to cancel the statement that is running. */
  cancelStatement(): Promise<void>;
  /** Cuts it, so that neither the transaction nor the pool waits for an answer that never comes. */
  sever(reason: Error): void;
}

export async function connectionOf(knex: Knex, trx: Knex.Transaction): Promise<HeldConnection> {
  const connection = await (trx.client as PoolClient).acquireConnection();
  // A broken connection goes back into the pool before the close of its socket is seen; the next to get it
  // would fail in its stead. Marked at once, it is thrown away instead.
  trx.on('query-error', (error: unknown) => {
    if (!isRefusal(error)) connection.__knex__disposed = error;
  });
  return {
    async cancelStatement() {
      await (knex.client as PoolClient).cancelQuery(connection);
    },
    sever(reason) {
      connection.__knex__disposed = reason;
      connection.connection.stream.destroy();
    },
  };
}
