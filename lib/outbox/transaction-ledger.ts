import type { Knex } from 'knex';
import { CeleryOutboxError } from '../errors';
import type { CreatedEvent } from '../telemetry/events';
import type { WatchedPromise } from './watched-promise';

interface FailedSend {
  readonly send: WatchedPromise<unknown>;
  readonly error: unknown;
  /** It was under way when the ledger closed: whoever watches it had not waited before answering. */
  readonly wasUnderWay: boolean;
}

/**
 * What was sent in one transaction: the sends still under way, those that failed, and the tasks that will be
 * stored if it commits. Savepoints that are rolled back take their tasks with them.
 */
export class TransactionLedger {
  readonly #pending = new Set<WatchedPromise<unknown>>();
  readonly #failed: FailedSend[] = [];
  readonly #savepoints: { name: string; size: number }[] = [];
  #stored: CreatedEvent[] = [];
  #turn: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(root: Knex.Transaction) {
    // The savepoints of nested transactions run through the root's client, in the order of the connection.
    root.on('query', ({ sql }: { sql: string }) => {
      this.#followSavepoint(sql);
    });
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get isEmpty(): boolean {
    return this.#stored.length === 0;
  }

  /** From now on a send is an error. */
  close(): void {
    this.#closed = true;
  }

  /** @throws ERR_CELERY_OUTBOX_TRANSACTION_SETTLED */
  assertOpen(trx: Knex.Transaction): void {
    if (!this.#closed && !trx.isCompleted()) return;
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_TRANSACTION_SETTLED',
      'The task was not stored: its transaction is already settled. In a request, send before the response begins',
    );
  }

  /** Runs one after another what writes in this transaction: a connection has one statement at a time. */
  inTurn<T>(write: () => Promise<T>): Promise<T> {
    const written = this.#turn.then(write);
    this.#turn = written.catch(() => undefined);
    return written;
  }

  track(send: WatchedPromise<unknown>): void {
    const sentInTime = !this.#closed;
    this.#pending.add(send);
    send.peek(
      () => this.#pending.delete(send),
      (error) => {
        this.#pending.delete(send);
        this.#failed.push({ send, error, wasUnderWay: sentInTime && this.#closed });
      },
    );
  }

  record(tasks: readonly CreatedEvent[]): void {
    for (const task of tasks) this.#stored.push(task);
  }

  /**
   * Waits for the sends that nobody awaited.
   *
   * @throws ERR_CELERY_OUTBOX_SEND_UNFINISHED if one of them failed, now or earlier without anybody looking.
   */
  async drain(): Promise<void> {
    await this.idle();
    const unseen = this.#failed.find(({ send, wasUnderWay }) => wasUnderWay || !send.observed);
    if (unseen !== undefined) throw unfinished(unseen.error);
  }

  /** Resolves when no send is under way. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) {
      await new Promise<void>((resolve) => {
        for (const send of this.#pending) {
          send.peek(resolve, () => {
            resolve();
          });
        }
      });
    }
  }

  /** The tasks that the commit has stored; empties the ledger. */
  takeStored(): CreatedEvent[] {
    const stored = this.#stored;
    this.#stored = [];
    return stored;
  }

  #followSavepoint(sql: string): void {
    const opened = /^\s*savepoint\s+(\w+)/i.exec(sql)?.[1];
    if (opened !== undefined) this.#savepoints.push({ name: opened, size: this.#stored.length });
    const undone = /^\s*rollback\s+to\s+(?:savepoint\s+)?(\w+)/i.exec(sql)?.[1];
    if (undone === undefined) return;
    // Unknown: it was opened before the first send, so all of them came after it.
    const savepoint = this.#savepoints.findLast(({ name }) => name === undone);
    this.#stored.length = savepoint?.size ?? 0;
  }
}

function unfinished(cause: unknown): CeleryOutboxError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_SEND_UNFINISHED',
    `Rolled back: a send that was not awaited failed: ${why}`,
    { cause },
  );
}
