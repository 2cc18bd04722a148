import { settledWithin } from '../deadline';
import { CeleryOutboxError } from '../errors';
import { logEvent, type Logger } from '../telemetry/logger';
import { type CeleryBroker, type CeleryConnection, connectBroker } from './celery-connection';
import { Client } from './celery-node';

const SEND_TIMEOUT_MS = 10_000;

/** A task that leaves at once, past the outbox. */
export interface DirectTask {
  readonly taskId: string;
  readonly taskName: string;
  readonly args: unknown[];
  readonly kwargs: Record<string, unknown>;
  readonly queue: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Sends tasks of `excludeTasks` through celery-node's client: no transaction, no retry, no acknowledgement
 * beyond what celery-node gives. What it adds: errors reach the caller, every send has a deadline, and a
 * broken connection is replaced for the next send.
 */
export class DirectSender {
  readonly #url: string;
  readonly #queue: string;
  readonly #logger: Logger;
  readonly #client: Client;
  #connection: CeleryConnection<CeleryBroker> | undefined;

  constructor(celery: { broker: string; queue: string }, logger: Logger) {
    this.#url = celery.broker;
    this.#queue = celery.queue;
    this.#logger = logger;
    this.#client = new Client(celery.broker, celery.broker, celery.queue);
  }

  /** @throws ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED */
  async send(task: DirectTask): Promise<void> {
    const connection = (this.#connection ??= this.#connect());
    const sending = this.#publish(connection, task);
    const inTime = await settledWithin(sending, SEND_TIMEOUT_MS);
    try {
      if (!inTime) throw new Error(`no answer within ${String(SEND_TIMEOUT_MS)} ms`);
      await sending;
    } catch (error) {
      this.#drop(connection);
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED',
        `The broker did not take ${task.taskName}, which excludeTasks sends directly: ${(error as Error).message}`,
        { cause: error, statusCode: 503 },
      );
    }
  }

  /** Ends the connection; a later send opens a new one. */
  async close(): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    const closing = connection.target.disconnect();
    if (!(await settledWithin(closing, SEND_TIMEOUT_MS))) connection.cut();
  }

  async #publish(connection: CeleryConnection<CeleryBroker>, task: DirectTask): Promise<void> {
    await connection.ready();
    const message = this.#client.createTaskMessage(task.taskId, task.taskName, task.args, task.kwargs);
    const headers = { ...message.headers, ...task.headers };
    await connection.target.publish(message.body, '', task.queue ?? this.#queue, headers, message.properties);
  }

  #connect(): CeleryConnection<CeleryBroker> {
    const connection = connectBroker(this.#url, this.#queue, (error) => {
      if (this.#connection !== connection) return;
      logEvent(this.#logger, 'warn', 'celery_outbox_connection_error', { error });
      this.#drop(connection);
    });
    return connection;
  }

  #drop(connection: CeleryConnection<CeleryBroker>): void {
    if (this.#connection === connection) this.#connection = undefined;
    connection.cut();
  }
}
