import type { Knex } from 'knex';
import type { OutboxHome } from './home';
import { UnitOfWork } from './unit-of-work';
import { WatchedPromise } from './watched-promise';

/** Runs `fn` in a transaction of its own, or in a savepoint of the one around it if that is still open. */
export function runTransaction<T>(home: OutboxHome, fn: (trx: Knex.Transaction) => Promise<T>): Promise<T> {
  const around = home.ambient.getStore();
  if (around === undefined || around.isCompleted() || home.ledgers.of(around).isClosed) {
    return UnitOfWork.run(home, fn);
  }
  const run = WatchedPromise.of(runInSavepoint(home, around, fn));
  home.ledgers.of(around).trackNested(run);
  return run;
}

async function runInSavepoint<T>(
  home: OutboxHome,
  around: Knex.Transaction,
  fn: (trx: Knex.Transaction) => Promise<T>,
): Promise<T> {
  const ledger = home.ledgers.of(around);
  // A send that is under way belongs to the transaction around, not to the savepoint.
  await ledger.idle();
  return around.transaction(async (savepoint) => {
    try {
      return await home.ambient.run(savepoint, () => fn(savepoint));
    } finally {
      // A send that was not awaited must not slip out of the savepoint and survive its rollback.
      await ledger.idle();
    }
  });
}
