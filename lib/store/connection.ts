import { EventEmitter, once } from 'node:events';
import type { Knex } from 'knex';
import { settledWithin } from '../deadline';

// The parts of knex's PostgreSQL client and of pg's Client that are not in their types. The tests that cancel and
// sever fail if one goes away.
interface PoolClient {
  acquireConnection(): Promise<RawConnection>;
  releaseConnection(connection: RawConnection): Promise<unknown>;
  cancelQuery(connection: RawConnection): Promise<unknown>;
}
interface RawConnection extends EventEmitter {
  __knex__disposed?: unknown;
  __knexTxId?: unknown;
  readyForQuery: boolean;
  connection: { stream: { destroy(): void } };
}

/** What PostgreSQL says of a COMMIT or ROLLBACK when no transaction is open. */
const NO_ACTIVE_TRANSACTION = '25P01';

/** A connection of the pool, ours from BEGIN until it is released. */
export interface HeldConnection {
  /** For knex's `transaction({ connection })`, which then leaves the release to us. */
  readonly raw: unknown;
  /** True once PostgreSQL said that there was no transaction to end: raw SQL had ended it. */
  hasLostTransaction(): boolean;
  /** Waits until no statement is running. @returns false if one still is after `ms`. */
  idleWithin(ms: number): Promise<boolean>;
  /** Asks PostgreSQL, on a connection outside the pool, to cancel the statement that is running. */
  cancelStatement(): Promise<void>;
  /** The pool will throw it away. */
  distrust(reason: unknown): void;
  /** Cuts it, so that neither the transaction nor the pool waits for an answer that never comes. */
  sever(reason: Error): void;
  release(): void;
}

export async function holdConnection(knex: Knex): Promise<HeldConnection> {
  const pool = knex.client as PoolClient;
  const raw = await pool.acquireConnection();
  let lostTransaction = false;
  const onNotice = ({ code }: { code?: string }): void => {
    if (code === NO_ACTIVE_TRANSACTION) lostTransaction = true;
  };
  raw.on('notice', onNotice);
  return {
    raw,
    hasLostTransaction: () => lostTransaction,
    async idleWithin(ms) {
      if (raw.readyForQuery) return true;
      const stop = new AbortController();
      try {
        return await settledWithin(once(raw, 'drain', { signal: stop.signal }), ms);
      } finally {
        stop.abort();
      }
    },
    async cancelStatement() {
      await pool.cancelQuery(raw);
    },
    distrust(reason) {
      raw.__knex__disposed = reason;
    },
    sever(reason) {
      raw.__knex__disposed = reason;
      raw.connection.stream.destroy();
    },
    release() {
      raw.off('notice', onNotice);
      delete raw.__knexTxId;
      void pool.releaseConnection(raw);
    },
  };
}
