import type { Knex } from 'knex';
import { settledWithin } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { connectionOf, type HeldConnection } from './connection';
import { type CommitTag, watchCommit } from './commit-tag';
import { isRefusal, reasonOf } from './database-error';

// A rollback waits for the statement that is running. Usually that is nothing or milliseconds; past this,
// the statement is cancelled rather than waited for.
const CANCEL_AFTER_MS = 100;
// Below the 5 s after which knex itself gives up on a ROLLBACK and puts the connection back into the pool
// as it is, mid-transaction.
const SEVER_AFTER_MS = 3_000;

/** A top-level transaction whose outcome is known, not assumed. */
export interface ProvenTransaction {
  readonly trx: Knex.Transaction;
  /**
   * Resolves only if PostgreSQL answered COMMIT with COMMIT, whoever sent it: code inside may have called
   * `trx.commit()` itself.
   *
   * @throws ERR_CELERY_OUTBOX_COMMIT_FAILED the server refused: nothing is stored.
   * @throws ERR_CELERY_OUTBOX_TRANSACTION_ABORTED an SQL error inside was swallowed: nothing is stored.
   * @throws ERR_CELERY_OUTBOX_COMMIT_UNKNOWN no answer came: it may be stored, and must not be retried.
   */
  commit(timeoutMs: number): Promise<void>;
  /** True once the code inside has called `trx.rollback()` itself. */
  rolledBackInside(): boolean;
  /** Never rejects and always ends: what cannot be rolled back in time is cut off, which rolls back too. */
  rollback(): Promise<void>;
}

/**
 * @throws ERR_CELERY_OUTBOX_BEGIN_FAILED
 */
export async function beginTransaction(knex: Knex): Promise<ProvenTransaction> {
  const trx = await knex.transaction().catch((error: unknown) => {
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_BEGIN_FAILED',
      `No transaction could be opened: ${reasonOf(error)}`,
      { cause: error, statusCode: 503 },
    );
  });
  const outcome = trx.executionPromise;
  // It rejects on a failed COMMIT and on rollback(error), possibly before anybody looks.
  outcome.catch(() => undefined);
  const open: OpenTransaction = {
    trx,
    outcome,
    commitTag: watchCommit(trx),
    swallowedError: watchSwallowedError(trx),
    connection: await connectionOf(knex, trx),
  };
  return {
    trx,
    commit: (timeoutMs) => commit(open, timeoutMs),
    rolledBackInside: () => trx.isCompleted() && open.commitTag() === undefined,
    rollback: () => rollback(open),
  };
}

interface OpenTransaction {
  readonly trx: Knex.Transaction;
  readonly outcome: Promise<unknown>;
  readonly commitTag: () => Promise<CommitTag> | undefined;
  readonly swallowedError: () => unknown;
  readonly connection: HeldConnection;
}

async function commit(open: OpenTransaction, timeoutMs: number): Promise<void> {
  const { trx, outcome } = open;
  // knex resolves commit() even when COMMIT failed; the failure is only in the outcome.
  if (!trx.isCompleted()) trx.commit();
  if (!(await settledWithin(outcome, timeoutMs))) {
    const timeout = new Error(`no answer to COMMIT within ${String(timeoutMs)} ms`);
    open.connection.sever(timeout);
    throw commitUnknown(timeout);
  }
  await outcome.catch((error: unknown) => {
    throw isRefusal(error) ? commitFailed(error) : commitUnknown(error);
  });
  // COMMIT of an aborted transaction is answered with ROLLBACK, without any error.
  if ((await open.commitTag()) !== 'COMMIT') throw aborted(open.swallowedError());
}

async function rollback({ trx, outcome, connection }: OpenTransaction): Promise<void> {
  if (!trx.isCompleted()) trx.rollback();
  if (await settledWithin(outcome, CANCEL_AFTER_MS)) return;
  connection.cancelStatement().catch(() => undefined);
  if (await settledWithin(outcome, SEVER_AFTER_MS)) return;
  connection.sever(new Error('ROLLBACK was not answered in time'));
  await settledWithin(outcome, SEVER_AFTER_MS);
}

/** Remembers the SQL error that aborted the transaction, unless a savepoint undid it. */
function watchSwallowedError(trx: Knex.Transaction): () => unknown {
  let first: unknown;
  trx.on('query-error', (error: unknown) => {
    first ??= error;
  });
  trx.on('query', ({ sql }: { sql: string }) => {
    if (/^\s*rollback\s+to\b/i.test(sql)) first = undefined;
  });
  return () => first;
}

function commitFailed(cause: unknown): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_COMMIT_FAILED', `COMMIT was refused: ${reasonOf(cause)}`, {
    cause,
  });
}

function commitUnknown(cause: unknown): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_COMMIT_UNKNOWN',
    `The answer to COMMIT was lost, so the transaction may or may not be stored: ${reasonOf(cause)}`,
    { cause },
  );
}

function aborted(cause: unknown): CeleryOutboxError {
  const why = cause === undefined ? 'the transaction was already aborted' : reasonOf(cause);
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED',
    `Nothing was stored: an SQL error inside the transaction was swallowed: ${why}`,
    { cause },
  );
}
