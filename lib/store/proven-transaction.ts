import type { Knex } from 'knex';
import { settledWithin } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { type HeldConnection, holdConnection } from './connection';
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
 * @param timeoutMs - how long BEGIN may take; waiting for a connection is up to the pool.
 * @throws ERR_CELERY_OUTBOX_BEGIN_FAILED
 */
export async function beginTransaction(knex: Knex, timeoutMs: number): Promise<ProvenTransaction> {
  const connection = await holdConnection(knex).catch((error: unknown) => {
    throw beginFailed(error);
  });
  const trx = await begin(knex, connection, timeoutMs);
  const outcome = trx.executionPromise;
  // It rejects on a failed COMMIT and on rollback(error), possibly before anybody looks.
  outcome.catch(() => undefined).finally(() => connection.release());
  distrustWhenBroken(trx, connection);
  const open: OpenTransaction = {
    trx,
    outcome,
    connection,
    commitTag: watchCommit(trx),
    swallowedError: watchSwallowedError(trx),
  };
  return {
    trx,
    commit: (commitTimeoutMs) => commit(open, commitTimeoutMs),
    rolledBackInside: () => trx.isCompleted() && open.commitTag() === undefined,
    rollback: () => rollback(open),
  };
}

async function begin(knex: Knex, connection: HeldConnection, timeoutMs: number): Promise<Knex.Transaction> {
  const opening = knex.transaction({ connection: connection.raw });
  try {
    if (await settledWithin(opening, timeoutMs)) return await opening;
    throw new Error(`no answer to BEGIN within ${String(timeoutMs)} ms`);
  } catch (error) {
    connection.sever(error as Error);
    connection.release();
    throw beginFailed(error);
  }
}

// A broken connection goes back into the pool before the close of its socket is seen; the next to get it would fail
// in its stead. Nor may one go back whose ROLLBACK failed: its transaction may be open.
function distrustWhenBroken(trx: Knex.Transaction, connection: HeldConnection): void {
  trx.on('query-error', (error: unknown, { sql }: { sql: string }) => {
    if (!isRefusal(error) || sql === 'ROLLBACK') connection.distrust(error);
  });
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
  if (open.connection.hasLostTransaction()) {
    throw aborted(new Error('raw SQL inside had ended the transaction before'));
  }
}

async function rollback({ trx, outcome, connection }: OpenTransaction): Promise<void> {
  if (!trx.isCompleted()) {
    await endStatement(connection);
    if (!trx.isCompleted()) trx.rollback();
  }
  if (await settledWithin(outcome, SEVER_AFTER_MS)) return;
  connection.sever(new Error('ROLLBACK was not answered in time'));
  await settledWithin(outcome, SEVER_AFTER_MS);
}

// Before ROLLBACK is sent, not after: once that is answered the connection is somebody else's, and a cancel that
// comes late would hit their statement.
async function endStatement(connection: HeldConnection): Promise<void> {
  if (await connection.idleWithin(CANCEL_AFTER_MS)) return;
  if (await settledWithin(connection.cancelStatement(), SEVER_AFTER_MS)) return;
  connection.sever(new Error('a statement could not be cancelled in time'));
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

function beginFailed(cause: unknown): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_BEGIN_FAILED',
    `No transaction could be opened: ${reasonOf(cause)}`,
    { cause, statusCode: 503 },
  );
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
