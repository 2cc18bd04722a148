import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import { reasonOf } from './database-error';

/** What PostgreSQL answered to a COMMIT; undefined if the COMMIT failed. */
export type CommitTag = string | undefined;

interface CommitAnswer {
  response?: { command?: string };
}

/**
 * Observes the `commit()` of a transaction, whoever calls it (knex itself does, for the form with a callback).
 * knex's own promise cannot tell a COMMIT from the ROLLBACK that answers it in an aborted transaction.
 *
 * @returns the answer, or undefined as long as nobody has called `commit()`.
 */
export function watchCommit(trx: Knex.Transaction): () => Promise<CommitTag> | undefined {
  const target = trx as unknown as { commit: (value?: unknown) => Promise<CommitAnswer | undefined> };
  const commit = target.commit;
  let tag: Promise<CommitTag> | undefined;
  target.commit = (value) => {
    const answering = commit(value);
    tag ??= answering.then((answer) => answer?.response?.command);
    return answering;
  };
  return () => tag;
}

/**
 * For a transaction that is not ours: in the form with a callback, knex reports success before anybody can look at
 * the answer to COMMIT, so the question is asked before.
 *
 * @throws ERR_CELERY_OUTBOX_TRANSACTION_ABORTED
 */
export async function assertNotAborted(trx: Knex.Transaction): Promise<void> {
  try {
    await trx.raw('SELECT 1');
  } catch (error) {
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED',
      `Nothing was stored: an SQL error inside the transaction was swallowed: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}
