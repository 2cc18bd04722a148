import type { Knex } from 'knex';
import type { CanvasOptions, TaskOptions } from '../message/task-options';
import type { TaskArgs, TaskKwargs, TaskName } from '../message/task-registry';

/** Options of one send: Celery's and ours, and the transaction to send in. */
export interface SendOptions extends TaskOptions {
  /** A Knex transaction of the outbox's database, instead of the one that the call is made in. */
  trx?: Knex.Transaction;
}

/** Options of applying a canvas: those of its first tasks, and the transaction. */
export interface ApplyOptions extends CanvasOptions {
  trx?: Knex.Transaction;
}

/** One task for `sendTasks`. */
export interface TaskCall<N extends TaskName = TaskName> {
  name: N;
  args?: TaskArgs<N>;
  kwargs?: TaskKwargs<N>;
  options?: SendOptions;
}
