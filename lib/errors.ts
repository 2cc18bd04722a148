/**
 * Every error code of the package, with what it means. One table: code, docs and tests are compared with it.
 */
export const ERROR_CODES = {
  ERR_CELERY_OUTBOX_INVALID_OPTION:
    'An option of createOutbox, of the middleware or of a call has a wrong value.',
  ERR_CELERY_OUTBOX_UNKNOWN_OPTION: 'An option that does not exist, or that cannot be kept for this task.',
  ERR_CELERY_OUTBOX_INVALID_TASK: 'A task name, args, kwargs or canvas value is not what Celery could run.',
  ERR_CELERY_OUTBOX_UNENCODABLE: 'A value cannot be written as JSON without loss; the message has its path.',
  ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE: 'A task is larger than maxPayloadBytes.',
  ERR_CELERY_OUTBOX_NO_TRANSACTION: 'A send outside any transaction, with strict: true.',
  ERR_CELERY_OUTBOX_FOREIGN_TRANSACTION: 'The given trx is not a transaction of the outbox database.',
  ERR_CELERY_OUTBOX_TRANSACTION_SETTLED: 'A send after its transaction was committed or rolled back.',
  ERR_CELERY_OUTBOX_TRANSACTION_ABORTED: 'COMMIT answered ROLLBACK: an SQL error inside was swallowed.',
  ERR_CELERY_OUTBOX_BEGIN_FAILED: 'No transaction could be opened.',
  ERR_CELERY_OUTBOX_COMMIT_FAILED: 'The database refused the COMMIT; nothing is stored.',
  ERR_CELERY_OUTBOX_COMMIT_UNKNOWN:
    'The answer to COMMIT was lost; the transaction may or may not be stored.',
  ERR_CELERY_OUTBOX_SEND_UNFINISHED: 'A send that nobody awaited failed, so the transaction was rolled back.',
  ERR_CELERY_OUTBOX_TIMEOUT: 'The handler did not answer in time; the transaction was rolled back.',
  ERR_CELERY_OUTBOX_ABORTED: 'The client went away before the answer; the transaction was rolled back.',
  ERR_CELERY_OUTBOX_ANSWERED_TWICE: 'The handler answered twice; the transaction was rolled back.',
  ERR_CELERY_OUTBOX_STORE_FAILED: 'The database refused the INSERT of a task.',
  ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED: 'The broker did not take a task of excludeTasks.',
  ERR_CELERY_OUTBOX_BROKER_OUTAGE: 'The broker cannot take messages now; no message is to blame.',
  ERR_CELERY_OUTBOX_BROKER_ACCESS: 'The broker refused the credentials, the virtual host or the database.',
  ERR_CELERY_OUTBOX_UNROUTABLE: 'The broker has no queue for a message.',
  ERR_CELERY_OUTBOX_MESSAGE_REFUSED: 'The broker refused a message, or the declaration of its queue.',
  ERR_CELERY_OUTBOX_MESSAGE_INVALID: 'A stored task cannot be made into a message that a worker could read.',
  ERR_CELERY_OUTBOX_NO_BACKEND: 'A result was asked for, and no result backend is configured.',
  ERR_CELERY_OUTBOX_BACKEND_OUTAGE: 'The result backend did not answer.',
  ERR_CELERY_OUTBOX_DATABASE: 'PostgreSQL did not do what the relay asked of it.',
  ERR_CELERY_OUTBOX_CLOSED: 'The outbox was closed.',
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

export interface ErrorDetails {
  cause?: unknown;
  /** HTTP status that Express's default error handling answers with. */
  statusCode?: number;
}

/**
 * Base of every error this package throws. `instanceof` also holds between two copies of the package.
 */
export class CeleryOutboxError extends Error {
  /** Marks the instances of a class. @internal */
  static readonly brand: symbol = Symbol.for('express-celery-outbox.error');

  readonly code: ErrorCode;
  readonly statusCode: number;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.statusCode = details.statusCode ?? 500;
    Object.defineProperty(this, CeleryOutboxError.brand, { value: true });
  }

  override get name(): string {
    return 'CeleryOutboxError';
  }

  /** The name under which Express and http-errors look for the status. */
  get status(): number {
    return this.statusCode;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && this.brand in value;
  }
}
