import { expect } from 'chai';
import { Publisher } from '../../lib/broker/publisher';
import { parseCeleryOptions, type CeleryOptions } from '../../lib/celery-options';
import type { Canvas, CanvasResult } from '../../lib/message/canvas';
import { encodeCanvas } from '../../lib/message/encode-canvas';
import { encodeTask, type EncodedTask, type EncodeSettings } from '../../lib/message/encode-task';
import type { StoredTask } from '../../lib/message/stored-task';
import type { CanvasOptions, TaskOptions } from '../../lib/message/task-options';
import type { OutboxRow, TestDatabase } from '../support/database';
import { recordingLogger } from '../support/log';

/** One task to send, in the words of `sendTasks`. */
export interface Call {
  readonly name: string;
  readonly args?: readonly unknown[];
  readonly kwargs?: object;
  readonly options?: TaskOptions;
}

/** The columns that are filled from the context of a call. */
export interface CallContext {
  readonly traceHeaders?: object;
  readonly logContext?: object;
}

/** Takes tasks from our API to a broker as the outbox and its relay do, without the database between them. */
export class Sender {
  readonly #logger = recordingLogger();
  readonly #publisher: Publisher;

  constructor(celery: CeleryOptions) {
    this.#publisher = new Publisher(parseCeleryOptions(celery), this.#logger);
  }

  /** Publishes calls in one batch; returns their task ids. */
  async send(calls: readonly Call[], context: CallContext = {}): Promise<string[]> {
    const tasks = calls.map((call) => encodeTask(call, encoding()));
    await this.publish(tasks.map((task) => stored(task, context)));
    return tasks.map((task) => task.taskId);
  }

  async apply(canvas: Canvas, options?: CanvasOptions, context: CallContext = {}): Promise<CanvasResult> {
    const { tasks, result } = encodeCanvas(canvas, options, encoding());
    await this.publish(tasks.map((task) => stored(task, context)));
    return result;
  }

  /** What the relay does with the rows of transactions that committed. */
  async relay(db: TestDatabase): Promise<void> {
    await this.publish((await db.rows()).map(storedTaskOf));
  }

  /** Fails unless the broker acknowledged all of them, without a complaint in the log. */
  async publish(tasks: readonly StoredTask[]): Promise<void> {
    const outcomes = await this.#publisher.publish(tasks);
    expect(outcomes).to.deep.equal(tasks.map(() => ({ status: 'published' })));
    const logged = this.#logger.lines.splice(0);
    expect(logged.filter(({ level }) => level === 'warn' || level === 'error')).to.deep.equal([]);
  }

  async close(): Promise<void> {
    await this.#publisher.close();
  }
}

function storedTaskOf(row: OutboxRow): StoredTask {
  return {
    taskId: row.task_id,
    taskName: row.task_name,
    args: row.args,
    kwargs: row.kwargs,
    options: row.options,
    redactedArgs: row.redacted_args,
    redactedKwargs: row.redacted_kwargs,
    traceHeaders: row.trace_headers,
    logContext: row.log_context,
  };
}

function stored(task: EncodedTask, { traceHeaders, logContext }: CallContext): StoredTask {
  const { taskId, taskName, args, kwargs, options, redactedArgs, redactedKwargs } = task;
  return {
    ...{ taskId, taskName, args, kwargs, options, redactedArgs, redactedKwargs },
    traceHeaders: traceHeaders === undefined ? null : JSON.stringify(traceHeaders),
    logContext: logContext === undefined ? null : JSON.stringify(logContext),
  };
}

function encoding(): EncodeSettings {
  return { maxPayloadBytes: 8 * 2 ** 20, now: new Date() };
}
