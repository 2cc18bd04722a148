import type { Route } from './celery-message';

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
  /** By task name, or a pattern with `*`, `?` and `[…]`; an exact name first, then the first pattern that fits. */
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

export function compileRoutes(routes: Readonly<Record<string, RouteOptions>>): CompiledRoute[] {
  const compiled = Object.entries(routes).map(([name, options]) => ({
    pattern: /[*?[]/.test(name) ? globPattern(name) : name,
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

/**
 * Where a task goes, as Celery decides it: an exchange with a routing key is taken as given; else it is a queue, by
 * way of the default exchange unless the queue is configured with an exchange that is not direct. A routing key alone
 * says nothing.
 */
export function routeTo(to: Destination, { defaultQueue, queues }: RoutingSettings): Route {
  const { exchange, routing_key: routingKey } = to;
  const names = exchange !== undefined && (routingKey !== undefined || to.queue === undefined);
  if (names) {
    return { exchange, routingKey: routingKey ?? '', queue: exchange === '' ? (routingKey ?? '') : null };
  }
  const queue = to.queue ?? defaultQueue;
  const configured = Object.hasOwn(queues, queue) ? queues[queue] : undefined;
  const { exchangeType = 'direct' } = configured ?? {};
  if (exchangeType === 'direct') return { exchange: '', routingKey: queue, queue };
  return {
    exchange: configured?.exchange ?? queue,
    routingKey: routingKey ?? configured?.routingKey ?? queue,
    queue,
  };
}

const NOTHING = /(?!)/;

// As Python's fnmatch.
function globPattern(glob: string): RegExp {
  const source = glob.replaceAll(/\*|\?|\[(!?)([^\]]+)\]|[^*?[]+|\[/g, (part, not?: string, set?: string) => {
    if (part === '*') return '.*';
    if (part === '?') return '.';
    if (set !== undefined) return `[${not === '!' ? '^' : ''}${set.replaceAll(/[\\\]^]/g, String.raw`\$&`)}]`;
    return part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  });
  try {
    return new RegExp(`^${source}$`, 's');
  } catch {
    // A range such as [z-a] matches nothing in Python, and is an error here.
    return NOTHING;
  }
}
