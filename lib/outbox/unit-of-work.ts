import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import { beginTransaction, type ProvenTransaction } from '../store/proven-transaction';
import type { OutboxHome } from './home';
import type { TransactionLedger } from './transaction-ledger';

/**
 * One transaction and all that is sent in it, from BEGIN to a proven outcome. Every path through it ends with
 * the connection back in the pool, or destroyed.
 */
export class UnitOfWork {
  readonly trx: Knex.Transaction;
  readonly #transaction: ProvenTransaction;
  readonly #ledger: TransactionLedger;
  readonly #home: OutboxHome;

  private constructor(home: OutboxHome, transaction: ProvenTransaction) {
    this.trx = transaction.trx;
    this.#transaction = transaction;
    this.#ledger = home.ledgers.open(transaction.trx);
    this.#home = home;
  }

  /** @throws ERR_CELERY_OUTBOX_BEGIN_FAILED, ERR_CELERY_OUTBOX_CLOSED */
  static async begin(home: OutboxHome): Promise<UnitOfWork> {
    assertNotClosed(home);
    const { knex, commitTimeoutMs } = home.settings;
    return new UnitOfWork(home, await beginTransaction(knex, commitTimeoutMs));
  }

  /** Runs `fn` in a transaction of its own: committed, proven, when it resolves; rolled back when it rejects. */
  static async run<T>(home: OutboxHome, fn: (trx: Knex.Transaction) => Promise<T>): Promise<T> {
    const unit = await UnitOfWork.begin(home);
    let value: T;
    try {
      value = await home.ambient.run(unit.trx, () => fn(unit.trx));
    } catch (error) {
      await unit.rollback();
      throw error;
    }
    await unit.commit();
    return value;
  }

  /** From now on a send is refused. */
  close(): void {
    this.#ledger.close();
  }

  /** Waits for the sends that nobody awaited. @throws ERR_CELERY_OUTBOX_SEND_UNFINISHED */
  async drain(): Promise<void> {
    this.#ledger.close();
    await this.#ledger.drain();
  }

  /**
   * Drains and commits. Whatever it throws, the transaction is over; only ERR_CELERY_OUTBOX_COMMIT_UNKNOWN
   * leaves open which way.
   */
  async commit(): Promise<void> {
    try {
      await this.drain();
      if (this.#transaction.rolledBackInside()) this.#assertNothingLost();
      else await this.#transaction.commit(this.#home.settings.commitTimeoutMs);
    } catch (error) {
      await this.rollback();
      throw error;
    }
    this.#home.ledgers.stored(this.#ledger);
  }

  /** Never rejects. */
  async rollback(): Promise<void> {
    this.#ledger.close();
    await this.#transaction.rollback();
    this.#ledger.takeStored();
  }

  // Code that rolled back by itself may well say success (a dry run), but not of tasks that are gone.
  #assertNothingLost(): void {
    if (this.#ledger.isEmpty) return;
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED',
      'Nothing was stored: trx.rollback() was called after tasks had been sent in the transaction',
    );
  }
}

/** @throws ERR_CELERY_OUTBOX_CLOSED */
export function assertNotClosed(home: OutboxHome): void {
  if (!home.isClosed) return;
  throw new CeleryOutboxError('ERR_CELERY_OUTBOX_CLOSED', 'The outbox is closed', { statusCode: 503 });
}
