import { settledWithin, within } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from '../telemetry/logger';
import { BackendOutage } from './broker-error';
import { type CeleryConnection, connectBackend } from './celery-connection';
import { AsyncResult, type CeleryBackend } from './celery-node';

const CLOSE_TIMEOUT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 5_000;

// celery-node answers null where its types say otherwise.
const NO_ANSWER = null as unknown as object;
const UNKNOWN_STATUS = null as unknown as string;

/** What a worker stored for a task. */
interface TaskMeta {
  readonly status: string;
  readonly result: unknown;
}

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

  /**
   * What the backend has of a task; null if nothing yet. For those who wait for an answer now.
   *
   * @throws BackendOutage
   */
  async ask(taskId: string): Promise<TaskMeta | null> {
    const connection = this.#connect();
    try {
      const answer = connection.target.getTaskMeta(taskId) as Promise<TaskMeta | null>;
      return await within(answer, ANSWER_TIMEOUT_MS, () => {
        this.#drop(connection);
        return new Error(`no answer within ${String(ANSWER_TIMEOUT_MS)} ms`);
      });
    } catch (error) {
      throw new BackendOutage(`The result backend did not answer: ${(error as Error).message}`, error);
    }
  }

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
      this.#report(error);
      this.#drop(connection);
    });
    this.#connection = connection;
    return connection;
  }

  #drop(connection: CeleryConnection<CeleryBackend>): void {
    if (this.#connection === connection) this.#connection = undefined;
    connection.cut();
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

  /** Null while there is none. @throws as get, and ERR_CELERY_OUTBOX_BACKEND_OUTAGE */
  override async result(): Promise<unknown> {
    return (await this.#meta())?.result ?? null;
  }

  /** Null while the backend knows nothing of the task. @throws as result */
  override async status(): Promise<string> {
    return (await this.#meta())?.status ?? UNKNOWN_STATUS;
  }

  #meta(): Promise<TaskMeta | null> {
    this.#backend.assertUsable();
    return this.#backend.ask(this.taskId);
  }
}
