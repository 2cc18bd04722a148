import type { Knex } from 'knex';
import { assertNotAborted, watchCommit } from '../store/commit-tag';
import type { CreatedEvent } from '../telemetry/events';
import { TransactionLedger } from './transaction-ledger';

/** The ledgers of all open transactions, found by the transaction or by any savepoint in it. */
export class Ledgers {
  readonly #byRoot = new WeakMap<Knex.Transaction, TransactionLedger>();
  readonly #savepoints = new WeakSet<Knex.Transaction>();
  readonly #onStored: (tasks: readonly CreatedEvent[]) => void;

  constructor(onStored: (tasks: readonly CreatedEvent[]) => void) {
    this.#onStored = onStored;
  }

  /** For a transaction that we opened: whoever commits it drains the ledger and reports with `stored`. */
  open(root: Knex.Transaction): TransactionLedger {
    const ledger = new TransactionLedger(root);
    this.#byRoot.set(root, ledger);
    return ledger;
  }

  of(trx: Knex.Transaction): TransactionLedger {
    const root = rootOf(trx);
    const ledger = this.#byRoot.get(root) ?? this.#adopt(root);
    if (trx !== root) this.#holdOpen(trx, ledger);
    return ledger;
  }

  /** To be called once the transaction's COMMIT is proven. */
  stored(ledger: TransactionLedger): void {
    this.#onStored(ledger.takeStored());
  }

  // A transaction that the user opened: its commit() waits for sends that nobody awaited, and tells us.
  #adopt(root: Knex.Transaction): TransactionLedger {
    const ledger = this.open(root);
    const answer = watchCommit(root);
    aroundCommit(root, async (commit) => {
      ledger.close();
      try {
        await ledger.drain();
        if (!ledger.isEmpty) await assertNotAborted(root);
      } catch (error) {
        // Whoever calls commit() by hand need not think of a rollback when that fails.
        await root.rollback(error);
        throw error;
      }
      const result = await commit();
      if ((await answer()) === 'COMMIT') this.stored(ledger);
      // knex resolves commit() by hand even when COMMIT failed.
      else await root.executionPromise;
      return result;
    });
    return ledger;
  }

  // A savepoint must not be released before the sends that joined it are written.
  #holdOpen(savepoint: Knex.Transaction, ledger: TransactionLedger): void {
    if (this.#savepoints.has(savepoint)) return;
    this.#savepoints.add(savepoint);
    aroundCommit(savepoint, async (release) => {
      await ledger.idle();
      return release();
    });
  }
}

/** Knex itself calls the same method, in the form with a callback. */
function aroundCommit(
  trx: Knex.Transaction,
  around: (commit: () => Promise<unknown>) => Promise<unknown>,
): void {
  const target = trx as unknown as { commit: (value?: unknown) => Promise<unknown> };
  const commit = target.commit;
  target.commit = (value) => around(() => commit(value));
}

function rootOf(trx: Knex.Transaction): Knex.Transaction {
  let root = trx;
  while (root.parentTransaction !== undefined) root = root.parentTransaction;
  return root;
}
