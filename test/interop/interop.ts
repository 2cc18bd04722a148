import { randomBytes } from 'node:crypto';
import type { Canvas } from '../../lib';
import type { CanvasOptions, TaskOptions } from '../../lib/message/task-options';
import { startPythonWorker, type PythonWorker } from '../support/python-worker';
import { service } from '../support/services';
import { TaskResults } from '../support/task-results';
import { Sender } from './sender';

export const BROKERS = ['rabbitmq', 'redis'] as const;
export type BrokerName = (typeof BROKERS)[number];

/** What the tests of one broker work with. */
export interface Interop {
  readonly broker: BrokerName;
  readonly brokerUrl: string;
  readonly backendUrl: string;
  readonly names: Names;
  readonly sender: Sender;
  readonly results: TaskResults;
  /** Sends a task and waits for its result. */
  run(name: string, args?: readonly unknown[], kwargs?: object, options?: TaskOptions): Promise<unknown>;
  /** Applies a canvas and waits for its result; a list of them if it ends in a group. */
  apply(canvas: Canvas, options?: CanvasOptions): Promise<unknown>;
}

/** Of this run alone: a broker that was there before may have kept something under older ones. */
export interface Names {
  /** The worker's default queue, and ours. */
  readonly queue: string;
  readonly otherQueue: string;
  /** A topic exchange, where the worker has a queue for `orders.#`. */
  readonly exchange: string;
}

/** Starts a Python worker for the tests of a suite, and a sender to it. */
export function useInterop(broker: BrokerName): Interop {
  const interop = { broker } as { -readonly [Part in keyof Interop]: Interop[Part] };
  let worker: PythonWorker | undefined;

  before(async function () {
    this.timeout(120_000);
    const names = freshNames();
    const { queue, exchange } = names;
    const { brokerUrl, backendUrl } = await urlsFor(broker);
    const queues = [
      { name: queue },
      { name: names.otherQueue },
      { name: `${queue}-orders`, exchange, exchangeType: 'topic' as const, routingKey: 'orders.#' },
    ];
    const sender = new Sender({ broker: brokerUrl, backend: backendUrl, queue });
    Object.assign(interop, { brokerUrl, backendUrl, names, sender, results: new TaskResults(backendUrl) });
    worker = await startPythonWorker({
      ...{ broker: brokerUrl, backend: backendUrl, queues },
      ...{ pool: 'prefork', concurrency: 2 },
    });
  });
  afterEach(function () {
    if (this.currentTest?.state === 'failed') console.error(worker?.log());
  });
  after(async function () {
    this.timeout(20_000);
    interop.results.close();
    await interop.sender.close();
    await worker?.stop();
  });

  interop.run = async (name, args = [], kwargs = {}, options = {}) => {
    const [taskId] = await interop.sender.send([{ name, args, kwargs, options }]);
    return interop.results.result(taskId!);
  };
  interop.apply = async (canvas, options) => {
    const { groupId, taskIds } = await interop.sender.apply(canvas, options);
    const results = await Promise.all(taskIds.map((taskId) => interop.results.result(taskId)));
    return groupId === null ? results[0] : results;
  };
  return interop;
}

/** Broker and backend are different databases where both are Redis: neither side may ignore which. */
export async function urlsFor(broker: BrokerName): Promise<{ brokerUrl: string; backendUrl: string }> {
  const { url } = await service(broker);
  const brokerUrl = broker === 'redis' ? databaseOf(url, 1) : url;
  return { brokerUrl, backendUrl: databaseOf((await service('redis')).url, 2) };
}

function databaseOf(redisUrl: string, database: number): string {
  const url = new URL(redisUrl);
  url.pathname = `/${String(database)}`;
  return url.href;
}

export function freshNames(): Names {
  const queue = `interop-${randomBytes(4).toString('hex')}`;
  return { queue, otherQueue: `${queue}-other`, exchange: `${queue}-events` };
}
