import type { Knex } from 'knex';
import { settledWithin } from '../../deadline';
import { CeleryOutboxError } from '../../errors';
import { type HeldConnection, holdConnection } from '../connection';
import { reasonOf } from '../database-error';

/** How long to wait for a cancellation. */
const CANCEL_MS = 2_000;

/** Where the relay's statements run. */
export interface Database {
  readonly knex: Knex;
  /** How long one statement may take, the wait for a connection included. */
  readonly timeoutMs: number;
}

/**
 * Runs one statement, committed by itself. Without an answer in time its connection is cut, so that neither the relay
 * nor the pool waits for a server that is gone; whether the statement took effect is unknown then.
 *
 * @throws ERR_CELERY_OUTBOX_DATABASE
 */
export async function runStatement<Row>(
  { knex, timeoutMs }: Database,
  sql: string,
  bindings: readonly unknown[] = [],
): Promise<Row[]> {
  const deadline = performance.now() + timeoutMs;
  const connection = await acquire(knex, timeoutMs);
  try {
    const answer = Promise.resolve(
      knex.raw<{ rows: Row[] }>(sql, bindings as Knex.RawBinding[]).connection(connection.raw),
    );
    if (await settledWithin(answer, deadline - performance.now())) return (await answer).rows;
    // Or else it may take effect when nobody knows of it any more.
    void settledWithin(connection.cancelStatement(), CANCEL_MS);
    connection.sever(new Error('the statement took too long'));
    throw new Error(`no answer within ${String(timeoutMs)} ms`);
  } catch (error) {
    throw databaseError(error);
  } finally {
    connection.release();
  }
}

async function acquire(knex: Knex, timeoutMs: number): Promise<HeldConnection> {
  const acquiring = holdConnection(knex);
  try {
    if (await settledWithin(acquiring, timeoutMs)) return await acquiring;
  } catch (error) {
    throw databaseError(error);
  }
  acquiring.then(
    (late) => {
      late.release();
    },
    () => undefined,
  );
  throw databaseError(new Error(`no connection within ${String(timeoutMs)} ms`));
}

function databaseError(error: unknown): CeleryOutboxError {
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_DATABASE',
    `PostgreSQL did not do what the relay asked: ${reasonOf(error)}`,
    { cause: error, statusCode: 503 },
  );
}
