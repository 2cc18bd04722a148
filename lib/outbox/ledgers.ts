import type { Knex } from 'knex';
import { watchCommit } from '../store/commit-tag';
import type { CreatedEvent } from '../telemetry/events';
import { TransactionLedger } from './transaction-ledger';

/** The ledgers of all open transactions, found by the transaction or by any savepoint in it. */
export class Ledgers {
  readonly #byRoot = new WeakMap<Knex.Transaction, TransactionLedger>();
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
    return this.#byRoot.get(root) ?? this.#adopt(root);
  }

  /** To be called once the transaction's COMMIT is proven. */
  stored(ledger: TransactionLedger): void {
    this.#onStored(ledger.takeStored());
  }

  // A transaction that the user opened: its commit() waits for sends that nobody awaited, and tells us.
  #adopt(root: Knex.Transaction): TransactionLedger {
    const ledger = this.open(root);
    const answer = watchCommit(root);
    const target = root as unknown as { commit: (value?: unknown) => Promise<unknown> };
    const commit = target.commit;
    target.commit = async (value) => {
      ledger.close();
      await ledger.drain();
      const result = await commit(value);
      if ((await answer()) === 'COMMIT') this.stored(ledger);
      return result;
    };
    return ledger;
  }
}

function rootOf(trx: Knex.Transaction): Knex.Transaction {
  let root = trx;
  while (root.parentTransaction !== undefined) root = root.parentTransaction;
  return root;
}
