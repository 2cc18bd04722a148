import type { BackendSettings } from '../celery-options';
import { settledWithin, within } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from '../telemetry/logger';
import { BackendOutage } from './broker-error';
import { type CeleryConnection, connectBackend } from './celery-connection';
import { AsyncResult, type CeleryBackend } from './celery-node';

const CLOSE_TIMEOUT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 5_000;
const POLL_INTERVAL_MS = 500;
/** How long a backend is left alone that could not be connected to, or that ended a connection without an answer. */
const PAUSE_MS = 1_000;
const FINAL = new Set(['SUCCESS', 'FAILURE', 'REVOKED']);

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
  readonly #settings: BackendSettings | undefined;
  readonly #logger: Logger;
  readonly #onClose = new Set<(closed: CeleryOutboxError) => void>();
  #connection: CeleryConnection<CeleryBackend> | undefined;
  #hasAnswered = false;
  /** Why there was no answer the last time; undefined if there was one. */
  #outage: Error | undefined;
  #pausedUntil = -Infinity;
  #isClosed = false;

  constructor(settings: BackendSettings | undefined, logger: Logger) {
    this.#settings = settings;
    this.#logger = logger;
  }

  /** @throws ERR_CELERY_OUTBOX_NO_BACKEND, ERR_CELERY_OUTBOX_CLOSED */
  assertUsable(): BackendSettings {
    if (this.#isClosed) throw closedError();
    if (this.#settings !== undefined) return this.#settings;
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_NO_BACKEND',
      'A result was asked for, but celery.backend was not given to createOutbox',
    );
  }

  isReady = async (): Promise<void> => this.#connect().ready();

  storeResult = async (taskId: string, result: unknown, state: string): Promise<unknown> =>
    this.#connect().target.storeResult(taskId, result, state);

  // celery-node's own AsyncResult.get() polls this without a catch: a rejection would end the process. A backend
  // that is away has no answer yet, so the poll goes on until its own timeout.
  getTaskMeta = async (taskId: string): Promise<object> => {
    if (this.#isClosed) return NO_ANSWER;
    try {
      return (await this.#ask(taskId)) ?? NO_ANSWER;
    } catch {
      return NO_ANSWER;
    }
  };

  /**
   * What the backend has of a task; null if nothing yet. For those who wait for an answer now.
   *
   * @throws BackendOutage
   */
  async ask(taskId: string): Promise<TaskMeta | null> {
    try {
      return await this.#ask(taskId);
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

  /** As disconnect, for good: a `get()` that still waits is told, and can open no connection that nobody ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const tell of this.#onClose) tell(closedError());
    await this.disconnect();
  }

  /** @returns what takes the listener away again */
  onClose(listener: (closed: CeleryOutboxError) => void): () => void {
    this.#onClose.add(listener);
    return () => this.#onClose.delete(listener);
  }

  async #ask(taskId: string): Promise<TaskMeta | null> {
    const connection = this.#connect();
    try {
      const answer = connection.target.getTaskMeta(taskId) as Promise<TaskMeta | null>;
      const meta = await within(answer, ANSWER_TIMEOUT_MS, () => {
        const silence = new Error(`no answer within ${String(ANSWER_TIMEOUT_MS)} ms`);
        this.#lose(connection, silence);
        return silence;
      });
      this.#hasAnswered = true;
      this.#outage = undefined;
      return meta;
    } catch (error) {
      // Of one that was ended meanwhile, by us or as lost, there is nothing new to say.
      if (this.#connection === connection) this.#report(error as Error);
      throw error;
    }
  }

  /** @throws why the last attempt failed, while the pause after it lasts */
  #connect(): CeleryConnection<CeleryBackend> {
    if (this.#connection !== undefined) return this.#connection;
    const settings = this.assertUsable();
    if (this.#outage !== undefined && performance.now() < this.#pausedUntil) throw this.#outage;
    this.#hasAnswered = false;
    try {
      const connection = connectBackend(settings, (error) => {
        this.#lose(connection, error);
      });
      return (this.#connection = connection);
    } catch (error) {
      this.#pausedUntil = performance.now() + PAUSE_MS;
      this.#report(error as Error);
      throw error;
    }
  }

  #lose(connection: CeleryConnection<CeleryBackend>, why: Error): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    connection.cut();
    if (!this.#hasAnswered) this.#pausedUntil = performance.now() + PAUSE_MS;
    this.#report(why);
  }

  /** Once for each outage. */
  #report(error: Error): void {
    const isNew = this.#outage === undefined;
    this.#outage = error;
    if (isNew) logEvent(this.#logger, 'warn', 'celery_outbox_connection_error', { error });
  }
}

/**
 * celery-node's AsyncResult. Its `get()` is ours: celery-node's cannot be ended from outside, and so outlives the outbox
 * and polls for ever without a result backend.
 */
export class OutboxResult extends AsyncResult {
  readonly #backend: ResultBackend;
  /** Kept: a result backend in RabbitMQ gives it only once. */
  #final: TaskMeta | undefined;

  constructor(taskId: string, backend: ResultBackend) {
    super(taskId, backend);
    this.#backend = backend;
  }

  /**
   * Waits for the task's result, without an end if no timeout is given.
   *
   * @throws ERR_CELERY_OUTBOX_NO_BACKEND; ERR_CELERY_OUTBOX_CLOSED, also while it waits; as celery-node an error
   * `TIMEOUT`, or `FAILURE` or `REVOKED` with what the task failed with.
   */
  override async get(timeoutMs?: number, intervalMs = POLL_INTERVAL_MS): Promise<unknown> {
    this.#backend.assertUsable();
    const { status, result } = this.#final ?? (await this.#wait(timeoutMs, intervalMs));
    if (status === 'SUCCESS') return result;
    throw Object.assign(new Error(status), result);
  }

  /** Null while there is none. @throws as get, and ERR_CELERY_OUTBOX_BACKEND_OUTAGE */
  override async result(): Promise<unknown> {
    return (await this.#meta())?.result ?? null;
  }

  /** Null while the backend knows nothing of the task. @throws as result */
  override async status(): Promise<string> {
    return (await this.#meta())?.status ?? UNKNOWN_STATUS;
  }

  async #meta(): Promise<TaskMeta | null> {
    this.#backend.assertUsable();
    return this.#final ?? this.#keep(await this.#backend.ask(this.taskId));
  }

  #keep(meta: TaskMeta | null): TaskMeta | null {
    if (meta !== null && FINAL.has(meta.status)) this.#final ??= meta;
    return meta;
  }

  /** Asks one question at a time; leaves no timer, however it ends. */
  #wait(timeoutMs: number | undefined, intervalMs: number): Promise<TaskMeta> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearInterval(polling);
        clearTimeout(timeout);
        stopListening();
      };
      const fail = (error: Error): void => {
        end();
        reject(error);
      };
      let isAsking = false;
      const poll = async (): Promise<void> => {
        if (isAsking) return;
        isAsking = true;
        this.#keep((await this.#backend.getTaskMeta(this.taskId)) as TaskMeta | null);
        isAsking = false;
        if (this.#final === undefined) return;
        end();
        resolve(this.#final);
      };
      const polling = setInterval(() => void poll(), intervalMs);
      const timeout = timeoutMs ? setTimeout(() => fail(new Error('TIMEOUT')), timeoutMs) : undefined;
      const stopListening = this.#backend.onClose(fail);
    });
  }
}

function closedError(): CeleryOutboxError {
  return new CeleryOutboxError('ERR_CELERY_OUTBOX_CLOSED', 'The outbox is closed');
}
