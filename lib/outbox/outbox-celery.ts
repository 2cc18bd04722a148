import type { Knex } from 'knex';
import { type CeleryBackend, type CeleryBroker, ClientBase, type TaskMessage } from '../broker/celery-node';
import { celeryNodeBroker } from '../broker/celery-node-broker';
import { OutboxResult } from '../broker/result-backend';
import { CeleryOutboxError } from '../errors';
import type { Canvas } from '../message/canvas';
import type { Chord } from '../message/chord';
import type { Group } from '../message/group';
import type { Signature } from '../message/signature';
import { encodeCanvas } from '../message/encode-canvas';
import type { EncodedTask } from '../message/encode-task';
import type { TaskName, TaskParameters } from '../message/task-registry';
import { assertOwnTransaction } from '../store/own-transaction';
import { logEvent } from '../telemetry/logger';
import { callSite, type CallSite } from './call-site';
import { assertNoneExcluded, isExcluded, toDirectTask } from './excluded-tasks';
import type { OutboxHome } from './home';
import { OutboxTask } from './outbox-task';
import { assertCalls, encodeCall, encodingOf, type UncheckedCall, withoutTrx } from './encode-call';
import type { ApplyOptions, SendOptions, TaskCall } from './send-options';
import { storeTasks } from './store-tasks';
import { assertNotClosed } from './unit-of-work';
import { WatchedPromise } from './watched-promise';

/**
 * A Celery client that writes tasks to the outbox table instead of the broker.
 *
 * `req.celery` writes in the request's transaction. `outbox.celery` writes in the transaction that it is called
 * in: a request's, one of `outbox.transaction()`, or the one given as `trx`. Outside any, it warns and writes in
 * one of its own, or refuses with `strict`.
 */
export class OutboxCelery extends ClientBase {
  readonly #home: OutboxHome;
  readonly #bound: Knex.Transaction | undefined;

  /** @internal */
  constructor(home: OutboxHome, bound?: Knex.Transaction) {
    const { celery } = home.settings;
    super(celery?.broker ?? '', celery?.backend ?? '', celery?.routing.defaultQueue);
    this.#home = home;
    this.#bound = bound;
  }

  /**
   * Stores one task. Resolves once the row is written; the task is sent if and when its transaction commits.
   *
   * @param options - an options object, or a task id as in celery-node.
   * @throws a coded error, before anything is written, if the task cannot be kept as it is.
   */
  sendTask<N extends TaskName>(
    name: N,
    ...[args, kwargs, options]: TaskParameters<N, SendOptions | string>
  ): Promise<OutboxResult> {
    const call = { name, args, kwargs, options: typeof options === 'string' ? { taskId: options } : options };
    return this.#send([call], ([taskId]) => this.asyncResult(taskId as string));
  }

  /**
   * Stores any number of tasks with one INSERT, in this order: all of them, or none. Those of `excludeTasks` among
   * them are handed to the broker first.
   */
  sendTasks<const Names extends readonly TaskName[]>(calls: {
    readonly [I in keyof Names]: TaskCall<Names[I]>;
  }): Promise<OutboxResult[]> {
    return this.#send(calls, (taskIds) => taskIds.map((taskId) => this.asyncResult(taskId)));
  }

  /**
   * celery-node's way to the broker, past the outbox: sent at once, whatever becomes of the transaction. Resolves when
   * the broker has acknowledged the message.
   *
   * @throws ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED, ERR_CELERY_OUTBOX_INVALID_TASK
   */
  sendTaskMessage(_taskName: string, message: TaskMessage): Promise<void> {
    const { body, headers, properties } = message;
    const start = async (): Promise<void> => {
      assertNotClosed(this.#home);
      await this.broker.publish(body, '', this.conf.CELERY_QUEUE, headers, properties);
    };
    const send = WatchedPromise.of(start());
    this.#reportUnobserved(send);
    return send;
  }

  /** celery-node's task object: `createTask('tasks.add').delay(1, 2)`. */
  createTask<N extends TaskName>(name: N): OutboxTask<N> {
    return new OutboxTask(this, name);
  }

  /**
   * Stores a canvas as one unit: all of its messages, or none.
   *
   * @returns the result of a signature, of a chain's last task, of a chord's body; for a group one per member.
   */
  applyAsync(canvas: Signature | Chord, options?: ApplyOptions): Promise<OutboxResult>;
  applyAsync(canvas: Group, options?: ApplyOptions): Promise<OutboxResult[]>;
  applyAsync(canvas: Canvas, options?: ApplyOptions): Promise<OutboxResult | OutboxResult[]>;
  applyAsync(canvas: Canvas, options?: ApplyOptions): Promise<OutboxResult | OutboxResult[]> {
    return this.#dispatch([{ options }], async (site) => {
      const { tasks, result } = encodeCanvas(canvas, withoutTrx(options), encodingOf(this.#home.settings));
      assertNoneExcluded(this.#home.settings, tasks);
      if (result.groupId !== null) {
        assertNoKey(tasks);
        await storeTasks(this.#home, site, tasks);
        return result.taskIds.map((taskId) => this.asyncResult(taskId));
      }
      const [resultId] = result.taskIds;
      const [answer] = await storeTasks(this.#home, site, tasks, resultId);
      return this.asyncResult(answer as string);
    });
  }

  /** Past the outbox: what celery-node's own methods publish goes to the broker at once. @internal */
  override get broker(): CeleryBroker {
    const { direct } = this.#home;
    if (direct !== undefined) return celeryNodeBroker(direct);
    throw new CeleryOutboxError(
      'ERR_CELERY_OUTBOX_INVALID_OPTION',
      'createOutbox: celery must be given to use its broker',
    );
  }

  /** @internal */
  override get backend(): CeleryBackend {
    return this.#home.results;
  }

  override asyncResult(taskId: string): OutboxResult {
    return new OutboxResult(taskId, this.#home.results);
  }

  /** There is nothing to wait for: the database is asked when a task is sent. */
  override isReady(): Promise<void> {
    return Promise.resolve();
  }

  /** Ends the connections of results and of direct sends; the next use opens them again. */
  override async disconnect(): Promise<void> {
    await Promise.all([this.#home.results.disconnect(), this.#home.direct?.close()]);
  }

  /** @internal The same client for one transaction. */
  boundTo(trx: Knex.Transaction): OutboxCelery {
    return new OutboxCelery(this.#home, trx);
  }

  #send<T>(calls: readonly UncheckedCall[], toResult: (taskIds: string[]) => T): Promise<T> {
    const { settings, direct } = this.#home;
    return this.#dispatch(calls, async (site) => {
      const encoding = encodingOf(settings);
      const tasks = calls.map((call) => encodeCall(call, encoding));
      const excluded = new Set(tasks.filter((task) => isExcluded(settings, task.taskName)));
      const directTasks = [...excluded].map((task) => toDirectTask(task, site.context));
      const stored = tasks.filter((task) => !excluded.has(task));
      // First, so that nothing is stored if the broker does not take them.
      // Without any, nothing may be awaited: an INSERT that nobody awaits has to be issued before the COMMIT is.
      if (directTasks.length > 0) await direct?.send(directTasks);
      const answers = await storeTasks(this.#home, site, stored);
      const answerOf = new Map(stored.map((task, index) => [task, answers[index]]));
      return toResult(tasks.map((task) => answerOf.get(task) ?? task.taskId));
    });
  }

  /** Starts `work` at once, so that it takes the caller's context, and lets the transaction wait for it. */
  #dispatch<T>(
    calls: readonly Pick<UncheckedCall, 'options'>[],
    work: (site: CallSite) => Promise<T>,
  ): Promise<T> {
    const around = this.#bound ?? this.#home.ambient.getStore();
    let trx = around;
    const start = async (): Promise<T> => {
      assertNotClosed(this.#home);
      assertCalls(calls);
      trx = this.#given(calls) ?? around;
      return work(callSite(this.#home, trx));
    };
    const send = WatchedPromise.of(start());
    if (trx !== undefined) this.#watch(send, trx);
    return send;
  }

  #given(calls: readonly Pick<UncheckedCall, 'options'>[]): Knex.Transaction | undefined {
    const [trx, ...others] = new Set(calls.map((call) => call.options?.trx));
    if (others.length > 0) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_INVALID_OPTION',
        'trx must be the same for all tasks of one sendTasks call: they are written with one INSERT',
      );
    }
    if (trx === undefined) return undefined;
    assertOwnTransaction(this.#home.settings.knex, trx);
    return trx;
  }

  // The transaction takes on the duty to report a failure that nobody looks at, unless it is over.
  #watch(send: WatchedPromise<unknown>, trx: Knex.Transaction): void {
    this.#home.ledgers.of(trx).track(send);
    this.#reportUnobserved(send);
  }

  #reportUnobserved(send: WatchedPromise<unknown>): void {
    send.peek(
      () => undefined,
      (error) => {
        setImmediate(() => {
          if (send.observed) return;
          logEvent(this.#home.settings.logger, 'error', 'celery_outbox_send_unobserved', { error });
        });
      },
    );
  }
}

// Only one id can be kept with a key, and a group has several results.
function assertNoKey(tasks: readonly EncodedTask[]): void {
  if (tasks.every((task) => task.idempotencyKey === null)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    'Option idempotencyKey must be left out for a canvas that ends in a group: it is for exactly one result',
  );
}
