import type { Knex } from 'knex';
import { captureContext, type CapturedContext } from './capture-context';
import type { OutboxHome } from './home';
import type { Savepoint } from './transaction-ledger';

/** The circumstances of a send, taken synchronously from the call: by the time of its INSERT they may be others. */
export interface CallSite {
  /** Undefined outside any transaction. */
  readonly trx: Knex.Transaction | undefined;
  /** The savepoints of the transaction that the call was made within. */
  readonly within: readonly Savepoint[];
  readonly context: CapturedContext;
}

export function callSite(home: OutboxHome, trx: Knex.Transaction | undefined): CallSite {
  const within = trx === undefined ? [] : home.ledgers.of(trx).openSavepoints;
  return { trx, within, context: captureContext(home.settings) };
}
