import type { Knex } from 'knex';
import type { OutboxHome } from './home';
import { UnitOfWork } from './unit-of-work';

/** Runs `fn` in a transaction of its own, or in a savepoint of the one around it if that is still open. */
export async function runTransaction<T>(
  home: OutboxHome,
  fn: (trx: Knex.Transaction) => Promise<T>,
): Promise<T> {
  const around = home.ambient.getStore();
  if (around === undefined || around.isCompleted() || home.ledgers.of(around).isClosed) {
    return UnitOfWork.run(home, fn);
  }
  // A send that is under way belongs to the transaction around, not to the savepoint.
  await home.ledgers.of(around).idle();
  return around.transaction(async (savepoint) => {
    try {
      return await home.ambient.run(savepoint, () => fn(savepoint));
    } finally {
      // A send that was not awaited must not slip out of the savepoint and survive its rollback.
      await home.ledgers.of(around).idle();
    }
  });
}
