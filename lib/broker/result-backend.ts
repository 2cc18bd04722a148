import { settledWithin } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from '../telemetry/logger';
import { type CeleryConnection, connectBackend } from './celery-connection';
import { AsyncResult, type CeleryBackend } from './celery-node';

const CLOSE_TIMEOUT_MS = 5_000;

const NO_ANSWER = null as unknown as object;

/** Connects to the result backend when the first result is asked for, and never before. */
export class ResultBackend implements CeleryBackend {
  readonly #url: string | undefined;
  readonly #logger: Logger;
  #connection: CeleryConnection<CeleryBackend> | undefined;
  #isClosed = false;

  constructor(url: string | undefined, logger: Logger) {
    this.#url = url;
    this.#logger = logger;
  }

  /** @throws ERR_CELERY_OUTBOX_NO_BACKEND, ERR_CELERY_OUTBOX_CLOSED */
  assertUsable(): string {
    if (this.#isClosed) throw new CeleryOutboxError('ERR_CELERY_OUTBOX_CLOSED', 'The outbox is closed');
    if (this.#url !== undefined) return this.#url;
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_NO_BACKEND',
      'A result was asked for, but celery.backend was not given to createOutbox',
    );
  }

  isReady = async (): Promise<void> => this.#connect().ready();

  storeResult = async (taskId: string, result: unknown, state: string): Promise<unknown> =>
    this.#connect().target.storeResult(taskId, result, state);

  // AsyncResult.get() polls this without a catch: a rejection would end the process. A backend that is away
  // has no answer yet, so the poll goes on until its own timeout.
  getTaskMeta = async (taskId: string): Promise<object> => {
    if (this.#isClosed) return NO_ANSWER;
    const connection = this.#connect();
    try {
      return await connection.target.getTaskMeta(taskId);
    } catch (error) {
      // Of one that was ended meanwhile, by us or as lost, there is nothing new to say.
      if (this.#connection === connection) this.#report(error);
      return NO_ANSWER;
    }
  };

  disconnect = async (): Promise<void> => {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    const closing = connection.target.disconnect();
    if (!(await settledWithin(closing, CLOSE_TIMEOUT_MS))) connection.cut();
  };

  /** As disconnect, for good: a `get()` that still polls must not open a connection that nobody ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.disconnect();
  }

  #connect(): CeleryConnection<CeleryBackend> {
    if (this.#connection !== undefined) return this.#connection;
    const connection = connectBackend(this.assertUsable(), (error) => {
      if (this.#connection !== connection) return;
      this.#connection = undefined;
      this.#report(error);
      connection.cut();
    });
    this.#connection = connection;
    return connection;
  }

  #report(error: unknown): void {
    logEvent(this.#logger, 'warn', 'celery_outbox_connection_error', { error });
  }
}

/** celery-node's AsyncResult; without a result backend its methods reject instead of polling for ever. */
export class OutboxResult extends AsyncResult {
  readonly #backend: ResultBackend;

  constructor(taskId: string, backend: ResultBackend) {
    super(taskId, backend);
    this.#backend = backend;
  }

  /** @throws ERR_CELERY_OUTBOX_NO_BACKEND, ERR_CELERY_OUTBOX_CLOSED, or what the task failed with. */
  override async get(timeoutMs?: number, intervalMs?: number): Promise<unknown> {
    this.#backend.assertUsable();
    return super.get(timeoutMs, intervalMs);
  }

  override async result(): Promise<unknown> {
    this.#backend.assertUsable();
    return super.result();
  }

  override async status(): Promise<string> {
    this.#backend.assertUsable();
    return super.status();
  }
}
