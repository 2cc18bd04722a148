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

/** A savepoint as the connection sees it. */
export interface Savepoint {
  readonly name: string;
  /** How many batches had been written when it was opened. */
  readonly batches: number;
  isUndone: boolean;
  /** False for one that stays behind when it was rolled back to: nobody is inside any more. */
  readonly isEntered: boolean;
}

/** The tasks of one INSERT. */
export interface Batch {
  /** The savepoints that the send was called within. */
  readonly within: readonly Savepoint[];
  /** Empty if the INSERT failed. */
  tasks: readonly CreatedEvent[];
}

/**
 * What was sent in one transaction: the sends still under way, those that failed, and the tasks that will be
 * stored if it commits. Savepoints that are rolled back take their tasks with them.
 */
export class TransactionLedger {
  readonly #pending = new Set<WatchedPromise<unknown>>();
  readonly #nested = new Set<WatchedPromise<unknown>>();
  readonly #failed: FailedSend[] = [];
  readonly #savepoints: Savepoint[] = [];
  #batches: Batch[] = [];
  #turn: Promise<unknown> = Promise.resolve();
  #closed = false;
  #isTorn = false;

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
    return this.#batches.every(({ tasks }) => tasks.length === 0);
  }

  get openSavepoints(): readonly Savepoint[] {
    return [...this.#savepoints];
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

  /** A send: the commit waits for it, and fails if it fails unseen. */
  track(send: WatchedPromise<unknown>): void {
    this.#follow(send, this.#pending);
  }

  /** A nested transaction: the same, but sends inside do not wait for it. */
  trackNested(run: WatchedPromise<unknown>): void {
    this.#follow(run, this.#nested);
  }

  #follow(work: WatchedPromise<unknown>, underWay: Set<WatchedPromise<unknown>>): void {
    const startedInTime = !this.#closed;
    underWay.add(work);
    work.peek(
      () => underWay.delete(work),
      (error) => {
        underWay.delete(work);
        this.#failed.push({ send: work, error, wasUnderWay: startedInTime && this.#closed });
      },
    );
  }

  /**
   * To be called when the INSERT of a send is issued: only then is it known between which savepoints it stands.
   * A send that nobody awaited may have been called before the one that it stands in was opened.
   */
  record(batch: Batch): void {
    if (batch.within.some(({ isUndone }) => isUndone)) this.#isTorn = true;
    this.#batches.push(batch);
  }

  /**
   * Waits for the sends and the nested transactions that nobody awaited.
   *
   * @throws ERR_CELERY_OUTBOX_SEND_UNFINISHED if one of them failed, now or earlier without anybody looking; if
   * a savepoint was rolled back around one: its task is then gone, or stored without the rest; or if knex is
   * still inside a savepoint: its sends are still to come.
   */
  async drain(): Promise<void> {
    await this.idle();
    await settled(this.#nested);
    if (this.#savepoints.some(({ name, isEntered }) => isEntered && KNEX_SAVEPOINT.test(name))) {
      throw unfinished(new Error('a nested transaction is still open; await trx.transaction() first'));
    }
    if (this.#isTorn) {
      throw unfinished(new Error('a savepoint was rolled back while it was under way; await it first'));
    }
    const unseen = this.#failed.find(({ send, wasUnderWay }) => wasUnderWay || !send.observed);
    if (unseen !== undefined) throw unfinished(unseen.error);
  }

  /** Resolves when no send is under way. */
  async idle(): Promise<void> {
    await settled(this.#pending);
  }

  /** The tasks that the commit has stored; empties the ledger. */
  takeStored(): CreatedEvent[] {
    const stored = this.#batches.flatMap(({ tasks }) => tasks);
    this.#batches = [];
    return stored;
  }

  #followSavepoint(sql: string): void {
    const [, verb = '', name = ''] = SAVEPOINT.exec(sql) ?? [];
    if (/^savepoint/i.test(verb)) this.#open(name);
    if (/^release/i.test(verb)) this.#savepoints.splice(this.#indexOf(name));
    if (/^rollback/i.test(verb)) this.#undo(name);
  }

  #open(name: string, isEntered = true): void {
    this.#savepoints.push({ name, batches: this.#batches.length, isUndone: false, isEntered });
  }

  #undo(name: string): void {
    const ended = this.#savepoints.splice(this.#indexOf(name));
    for (const savepoint of ended) savepoint.isUndone = true;
    const [undone] = ended;
    // Unknown: it was opened before the first send, so all of them were called within it.
    const lost = this.#batches.splice(undone?.batches ?? 0);
    if (undone === undefined) return;
    if (lost.some(({ tasks, within }) => tasks.length > 0 && !within.includes(undone))) this.#isTorn = true;
    // PostgreSQL keeps a savepoint that was rolled back to.
    this.#open(name, false);
  }

  /** Of the innermost one with that name; past the end if there is none. */
  #indexOf(name: string): number {
    const index = this.#savepoints.findLastIndex((savepoint) => savepoint.name === name);
    return index === -1 ? this.#savepoints.length : index;
  }
}

const IDENTIFIER = /("(?:[^"]|"")+"|\w+)/.source;
const SAVEPOINT = new RegExp(
  `^\\s*(savepoint|release(?:\\s+savepoint(?=\\s))?|rollback(?:\\s+work|\\s+transaction)?\\s+to(?:\\s+savepoint(?=\\s))?)\\s+${IDENTIFIER}\\s*;?\\s*$`,
  'i',
);
// What knex calls its own. One of these that is open belongs to a callback that is still running.
const KNEX_SAVEPOINT = /^trx\d+$/;

async function settled(underWay: ReadonlySet<WatchedPromise<unknown>>): Promise<void> {
  while (underWay.size > 0) {
    await new Promise<void>((resolve) => {
      for (const work of underWay) work.peek(resolve, () => resolve());
    });
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
