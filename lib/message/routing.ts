import type { Route } from './celery-message';
import { globPattern } from './glob';

/** A queue as Celery's `task_queues` describes it. Only one that is missing is ever declared. */
export interface QueueOptions {
  /** @defaultValue `classic` */
  type?: 'classic' | 'quorum';
  /** RabbitMQ's `x-max-priority`, for classic queues; 1 to 255. */
  maxPriority?: number;
  /** Exchange that the queue is bound to. @defaultValue the queue's name */
  exchange?: string;
  /** With any type but `direct`, tasks for this queue go through its exchange. @defaultValue `direct` */
  exchangeType?: 'direct' | 'topic' | 'fanout' | 'headers';
  /** Key or pattern that binds the queue to its exchange. @defaultValue the queue's name */
  routingKey?: string;
  /** More of RabbitMQ's queue arguments, such as `x-message-ttl`. */
  arguments?: Readonly<Record<string, string | number | boolean>>;
}

/** Where tasks go whose call does not say so, as in Celery's `task_routes`. */
export interface RouteOptions {
  queue?: string;
  exchange?: string;
  routingKey?: string;
  /** 0 to 255. */
  priority?: number;
}

export interface RoutingSettings {
  readonly defaultQueue: string;
  readonly queues: Readonly<Record<string, QueueOptions>>;
  /** An exact name first, then the first pattern that fits. */
  readonly routes: readonly CompiledRoute[];
}

export interface CompiledRoute {
  readonly pattern: RegExp | string;
  readonly options: RouteOptions;
}

/** The parts of a call's stored options that say where it goes. */
export interface Destination {
  readonly queue?: string | undefined;
  readonly exchange?: string | undefined;
  readonly routing_key?: string | undefined;
}

const NO_ROUTE: RouteOptions = {};

/** As in Celery, only a name with a star is a pattern; `?` and `[…]` count in those, and are themselves elsewhere. */
export function compileRoutes(routes: Readonly<Record<string, RouteOptions>>): CompiledRoute[] {
  const compiled = Object.entries(routes).map(([name, options]) => ({
    pattern: name.includes('*') ? globPattern(name) : name,
    options,
  }));
  const isExact = ({ pattern }: CompiledRoute): boolean => typeof pattern === 'string';
  return [...compiled.filter(isExact), ...compiled.filter((route) => !isExact(route))];
}

/** What `task_routes` says of a task. */
export function findRoute({ routes }: RoutingSettings, taskName: string): RouteOptions {
  const found = routes.find(({ pattern }) =>
    typeof pattern === 'string' ? pattern === taskName : pattern.test(taskName),
  );
  return found?.options ?? NO_ROUTE;
}

/** What a call and the route of its task say together. Key by key the call wins, and the rest is the route's. */
export function mergeDestination(call: Destination, found: RouteOptions): Destination {
  return {
    queue: call.queue ?? found.queue,
    exchange: call.exchange ?? found.exchange,
    routing_key: call.routing_key ?? found.routingKey,
  };
}

/**
 * Where a task goes, as Celery decides it: an exchange with a routing key is taken as given; else it is a queue, by
 * way of the default exchange unless the queue is configured with an exchange that is not direct. An exchange or a
 * routing key alone says nothing, except to such a queue.
 *
 * Unlike Celery, the default exchange with a routing key and no queue is the queue of that name, where Celery takes
 * the default queue or, if a route was found, none; and no route leads to the default exchange without a key, where
 * every message is lost.
 */
export function routeTo(to: Destination, { defaultQueue, queues }: RoutingSettings): Route {
  const { exchange, routing_key: routingKey } = to;
  const isNamed = exchange !== undefined && routingKey !== undefined;
  if (isNamed && (exchange !== '' || to.queue === undefined)) return routeThrough(exchange, routingKey);
  const queue = to.queue ?? defaultQueue;
  const configured = Object.hasOwn(queues, queue) ? queues[queue] : undefined;
  const { exchangeType = 'direct', exchange: own = queue, routingKey: bound = queue } = configured ?? {};
  if (exchangeType === 'direct') return { exchange: '', routingKey: queue, queue };
  if (isNamed || (exchange !== undefined && exchange !== '')) return routeThrough(exchange, routingKey ?? '');
  return { exchange: own, routingKey: routingKey ?? bound, queue };
}

function routeThrough(exchange: string, routingKey: string): Route {
  return { exchange, routingKey, queue: exchange === '' ? routingKey : null };
}
