import { TaskBase } from '../broker/celery-node';
import type { OutboxResult } from '../broker/result-backend';
import type { TaskArgs, TaskName, TaskParameters } from '../message/task-registry';
import type { OutboxCelery } from './outbox-celery';
import type { SendOptions } from './send-options';

/** celery-node's Task, whose calls write to the outbox. */
export class OutboxTask<N extends TaskName = TaskName> extends TaskBase {
  readonly #celery: Pick<OutboxCelery, 'sendTask'>;
  readonly #name: N;

  /** @internal */
  constructor(celery: OutboxCelery, name: N) {
    super(celery, name);
    this.#celery = celery;
    this.#name = name;
  }

  delay(...args: TaskArgs<N>): Promise<OutboxResult> {
    return this.applyAsync(...([args] as unknown as TaskParameters<N, SendOptions | string>));
  }

  /** Also with options, which celery-node's own does not take: `applyAsync(args?, kwargs?, options?)`. */
  applyAsync(...call: TaskParameters<N, SendOptions | string>): Promise<OutboxResult> {
    return this.#celery.sendTask(this.#name, ...call);
  }
}
