import Client from 'celery-node/dist/app/client';
import { AsyncResult } from 'celery-node/dist/app/result';
import Task from 'celery-node/dist/app/task';
import type { CeleryBackend } from 'celery-node/dist/backends';
import type { CeleryBroker } from 'celery-node/dist/kombu/brokers';
import type { BackendSettings } from '../celery-options';

export { AsyncResult, Client };
export type { CeleryBackend, CeleryBroker };
export type TaskMessage = ReturnType<Client['asTaskV2']>;

/** The members of celery-node's Client that keep their meaning in ours. */
interface ClientShape {
  conf: Client['conf'];
  get broker(): CeleryBroker;
  get backend(): CeleryBackend;
  asTaskV2(taskId: string, taskName: string, args?: unknown[], kwargs?: object): TaskMessage;
  asyncResult(taskId: string): AsyncResult;
  isReady(): Promise<unknown>;
  disconnect(): Promise<unknown>;
}
interface TaskShape {
  name: string;
}

/** Takes the result backend as our settings have it. */
class SettingsClient extends Client {
  constructor(broker: string, backend: BackendSettings | '', queue?: string) {
    super(broker, backend === '' ? '' : backend.url, queue);
  }
}

// The same classes at run time (instanceof holds), under types that let sendTask, delay and applyAsync
// return promises: celery-node's return before anything is sent.
export const ClientBase = SettingsClient as unknown as new (
  broker: string,
  backend: BackendSettings | '',
  queue?: string,
) => ClientShape;
export const TaskBase = Task as unknown as new (client: object, name: string) => TaskShape;
