import { expect } from 'chai';
import { type CelerySettings, parseCeleryOptions } from '../../../lib/celery-options';
import { encodeMessage } from '../../../lib/message/encode-message';
import {
  compileRoutes,
  type Destination,
  findRoute,
  type QueueOptions,
  type RouteOptions,
  routeTo,
} from '../../../lib/message/routing';
import type { Route } from '../../../lib/message/celery-message';

const queues: Record<string, QueueOptions> = {
  feeds: { exchange: 'feeds-ex', exchangeType: 'topic', routingKey: 'feed.#' },
  bare: { exchangeType: 'topic' },
  all: { exchangeType: 'fanout', exchange: 'everybody' },
  direct: { exchange: 'other', routingKey: 'key' },
  quorum: { type: 'quorum', maxPriority: 5 },
};

type Call = Destination & { readonly priority?: number };
type Sent = [exchange: string, routingKey: string, priority: number];
type Row = [call: Call, route: RouteOptions | null, sent: Sent, defaultQueue?: string];

function send(call: Call, route: RouteOptions | null, queue: string): Sent {
  const task = {
    taskId: 'id',
    taskName: 't',
    args: '[]',
    kwargs: '{}',
    redactedArgs: null,
    redactedKwargs: null,
  };
  const stored = { ...task, options: JSON.stringify(call), traceHeaders: null, logContext: null };
  const routes = route === null ? {} : { t: route };
  const settings: CelerySettings = parseCeleryOptions({ broker: 'amqp://h', queue, queues, routes });
  const message = encodeMessage(stored, { ...settings, origin: 'gen1@host' }, 0);
  return [message.route.exchange, message.route.routingKey, message.properties.priority];
}

function itSends(rows: readonly Row[]): void {
  for (const [call, route, sent, queue = 'celery'] of rows) {
    const given = `${JSON.stringify(call)} and ${route === null ? 'no route' : JSON.stringify(route)}`;
    it(`of ${given}, default queue ${queue}`, () => {
      expect(send(call, route, queue)).to.deep.equal(sent);
    });
  }
}

// What Celery 5.2.6 handed to its channel for the same call, task_routes, task_queues and task_default_queue.
describe('where Celery sends a task', () => {
  itSends([
    [{}, null, ['', 'celery', 0]],
    [{}, {}, ['', 'celery', 0]],
    [{ queue: 'q' }, null, ['', 'q', 0]],
    [{ routing_key: 'k' }, null, ['', 'celery', 0]],
    [{ queue: 'q', routing_key: 'k' }, null, ['', 'q', 0]],
    [{ exchange: 'e' }, null, ['', 'celery', 0]],
    [{ exchange: '' }, null, ['', 'celery', 0]],
    [{ exchange: 'e', routing_key: 'k' }, null, ['e', 'k', 0]],
    [{ exchange: 'e', queue: 'q' }, null, ['', 'q', 0]],
    [{ exchange: '', queue: 'q', routing_key: 'k' }, null, ['', 'q', 0]],
    [{ exchange: 'e', queue: 'q', routing_key: 'k' }, null, ['e', 'k', 0]],
    [{ queue: 'direct' }, null, ['', 'direct', 0]],
    [{ queue: 'direct', routing_key: 'k' }, null, ['', 'direct', 0]],
    [{ queue: 'direct', exchange: 'e' }, null, ['', 'direct', 0]],
    [{ queue: 'direct', exchange: 'e', routing_key: 'k' }, null, ['e', 'k', 0]],
    [{ queue: 'feeds' }, null, ['feeds-ex', 'feed.#', 0]],
    [{ queue: 'feeds', routing_key: 'k' }, null, ['feeds-ex', 'k', 0]],
    [{ queue: 'feeds', exchange: 'e' }, null, ['e', '', 0]],
    [{ queue: 'feeds', exchange: 'e', routing_key: 'k' }, null, ['e', 'k', 0]],
    [{ queue: 'feeds', exchange: '', routing_key: 'k' }, null, ['', 'k', 0]],
    [{ queue: 'all' }, null, ['everybody', 'all', 0]],
    [{}, null, ['feeds-ex', 'feed.#', 0], 'feeds'],
    [{ routing_key: 'k' }, null, ['feeds-ex', 'k', 0], 'feeds'],
    [{ exchange: 'e' }, null, ['e', '', 0], 'feeds'],
    [{ exchange: '', routing_key: 'k' }, null, ['', 'k', 0], 'feeds'],
    [{ queue: 'q' }, null, ['', 'q', 0], 'feeds'],
    [{}, { queue: 'r' }, ['', 'r', 0]],
    [{}, { routingKey: 'rk' }, ['', 'celery', 0]],
    [{}, { priority: 5 }, ['', 'celery', 5]],
    [{}, { exchange: 're', routingKey: 'rk' }, ['re', 'rk', 0]],
    [{}, { queue: 'r', exchange: 're' }, ['', 'r', 0]],
    [{}, { queue: 'r', exchange: 're', routingKey: 'rk' }, ['re', 'rk', 0]],
    [{}, { queue: 'feeds' }, ['feeds-ex', 'feed.#', 0]],
    [{}, { queue: 'feeds', routingKey: 'rk' }, ['feeds-ex', 'rk', 0]],
    [{ priority: 3 }, null, ['', 'celery', 3]],
    [{ priority: 3 }, { priority: 5 }, ['', 'celery', 3]],
    [{ priority: 0 }, { queue: 'r', priority: 5 }, ['', 'r', 0]],
    [{ queue: 'q' }, { queue: 'r', priority: 5 }, ['', 'q', 5]],
    [{ queue: 'q' }, { queue: 'r' }, ['', 'q', 0]],
    [{ queue: 'q' }, { exchange: 're' }, ['', 'q', 0]],
    [{ queue: 'q' }, { routingKey: 'rk' }, ['', 'q', 0]],
    [{ queue: 'q' }, { exchange: 're', routingKey: 'rk' }, ['re', 'rk', 0]],
    [{ queue: 'feeds' }, { queue: 'r', routingKey: 'rk' }, ['feeds-ex', 'rk', 0]],
    [{ queue: 'feeds' }, { exchange: 're' }, ['re', '', 0]],
    [{ queue: 'q' }, { queue: 'feeds', routingKey: 'rk' }, ['', 'q', 0]],
    [{ exchange: 'e' }, { queue: 'r' }, ['', 'r', 0]],
    [{ exchange: 'e' }, { routingKey: 'rk' }, ['e', 'rk', 0]],
    [{ exchange: 'e' }, { queue: 'r', routingKey: 'rk' }, ['e', 'rk', 0]],
    [{ exchange: 'e' }, { exchange: 're', routingKey: 'rk' }, ['e', 'rk', 0]],
    [{ exchange: 'e' }, { queue: 'feeds' }, ['e', '', 0]],
    [{ exchange: '' }, { queue: 'r', exchange: 're', routingKey: 'rk' }, ['', 'r', 0]],
    [{ routing_key: 'k' }, { queue: 'r' }, ['', 'r', 0]],
    [{ routing_key: 'k' }, { queue: 'feeds', routingKey: 'rk' }, ['feeds-ex', 'k', 0]],
    [{ routing_key: 'k' }, { exchange: 're' }, ['re', 'k', 0]],
    [{ routing_key: 'k' }, { exchange: 're', routingKey: 'rk' }, ['re', 'k', 0]],
    [{ routing_key: 'k' }, { priority: 5 }, ['feeds-ex', 'k', 5], 'feeds'],
    [{ exchange: 'e', routing_key: 'k' }, { queue: 'r', priority: 5 }, ['e', 'k', 5]],
    [{ exchange: '', routing_key: 'k' }, { queue: 'r' }, ['', 'r', 0]],
    [{ exchange: 'e', queue: 'q' }, { routingKey: 'rk' }, ['e', 'rk', 0]],
    [{}, { routingKey: 'rk' }, ['feeds-ex', 'rk', 0], 'feeds'],
  ]);
});

// Celery sends the first to the default queue, and loses the others.
describe('where a task goes that Celery would lose', () => {
  itSends([
    [{ exchange: '', routing_key: 'k' }, null, ['', 'k', 0]],
    [{ exchange: '', routing_key: 'k' }, { priority: 5 }, ['', 'k', 5]],
    [{}, { exchange: '', routingKey: 'rk' }, ['', 'rk', 0]],
    [{}, { exchange: 're' }, ['', 'celery', 0]],
    [{ exchange: 'e' }, { priority: 5 }, ['', 'celery', 5]],
    [{ exchange: '', queue: 'feeds' }, null, ['feeds-ex', 'feed.#', 0]],
    [{ exchange: '' }, null, ['feeds-ex', 'feed.#', 0], 'feeds'],
    [{}, { exchange: 're' }, ['re', '', 0], 'feeds'],
  ]);
});

describe('routeTo', () => {
  const rows: [call: string, to: Destination, route: Route][] = [
    ['nothing', {}, { exchange: '', routingKey: 'celery', queue: 'celery' }],
    ['a queue', { queue: 'q' }, { exchange: '', routingKey: 'q', queue: 'q' }],
    [
      'a routing key only',
      { routing_key: 'ignored' },
      { exchange: '', routingKey: 'celery', queue: 'celery' },
    ],
    [
      'a queue and a routing key',
      { queue: 'q', routing_key: 'k' },
      { exchange: '', routingKey: 'q', queue: 'q' },
    ],
    [
      'an exchange and a routing key',
      { exchange: 'e', routing_key: 'k' },
      { exchange: 'e', routingKey: 'k', queue: null },
    ],
    ['an exchange only', { exchange: 'e' }, { exchange: '', routingKey: 'celery', queue: 'celery' }],
    [
      'an exchange, a routing key and a queue',
      { exchange: 'e', routing_key: 'k', queue: 'q' },
      { exchange: 'e', routingKey: 'k', queue: null },
    ],
    ['an exchange and a queue', { exchange: 'e', queue: 'q' }, { exchange: '', routingKey: 'q', queue: 'q' }],
    [
      'the default exchange',
      { exchange: '', routing_key: 'q' },
      { exchange: '', routingKey: 'q', queue: 'q' },
    ],
    [
      'a topic queue and a routing key',
      { queue: 'feeds', routing_key: 'feed.import' },
      { exchange: 'feeds-ex', routingKey: 'feed.import', queue: 'feeds' },
    ],
    ['a topic queue', { queue: 'feeds' }, { exchange: 'feeds-ex', routingKey: 'feed.#', queue: 'feeds' }],
    [
      'a topic queue and an exchange',
      { queue: 'feeds', exchange: 'e' },
      { exchange: 'e', routingKey: '', queue: null },
    ],
    [
      'a topic queue without exchange and key of its own',
      { queue: 'bare' },
      { exchange: 'bare', routingKey: 'bare', queue: 'bare' },
    ],
    ['a fanout queue', { queue: 'all' }, { exchange: 'everybody', routingKey: 'all', queue: 'all' }],
    [
      'a queue of a direct exchange',
      { queue: 'direct', routing_key: 'k' },
      { exchange: '', routingKey: 'direct', queue: 'direct' },
    ],
    ['a quorum queue', { queue: 'quorum' }, { exchange: '', routingKey: 'quorum', queue: 'quorum' }],
    [
      "a queue with the name of an object's method",
      { queue: 'constructor' },
      { exchange: '', routingKey: 'constructor', queue: 'constructor' },
    ],
  ];
  for (const [call, to, route] of rows) {
    it(`of a call with ${call}`, () => {
      expect(routeTo(to, { defaultQueue: 'celery', queues, routes: [] })).to.deep.equal(route);
    });
  }

  it('takes the configured default queue, whatever it is', () => {
    expect(routeTo({}, { defaultQueue: 'jobs', queues, routes: [] }).routingKey).to.equal('jobs');
    expect(routeTo({ routing_key: 'feed.a' }, { defaultQueue: 'feeds', queues, routes: [] })).to.deep.equal({
      exchange: 'feeds-ex',
      routingKey: 'feed.a',
      queue: 'feeds',
    });
  });
});

describe('findRoute', () => {
  const find = (routes: Record<string, RouteOptions>, task: string): string | undefined =>
    findRoute({ defaultQueue: 'celery', queues: {}, routes: compileRoutes(routes) }, task).queue;
  const matches = (glob: string, task: string): boolean => find({ [glob]: { queue: 'q' } }, task) === 'q';

  it('takes a name without a star as it is', () => {
    for (const name of ['t.?', 't.[a-c]', 't.[!x]', 't.[a']) {
      expect(matches(name, name), name).to.equal(true);
      for (const task of ['t.a', 't.b', 't.[a-c'])
        expect(matches(name, task), `${name} ${task}`).to.equal(false);
    }
  });

  it('takes an exact name before any pattern, then the first pattern', () => {
    const routes = {
      'proj.*': { queue: 'first' },
      'proj.video.*': { queue: 'second' },
      'proj.video.cut': { queue: 'exact' },
    };
    expect(find(routes, 'proj.video.cut')).to.equal('exact');
    expect(find(routes, 'proj.video.join')).to.equal('first');
    expect(find(routes, 'other')).to.equal(undefined);
    expect(find({ 'proj.tasks': { queue: 'q' } }, 'proj-tasks')).to.equal(undefined);
  });

  it('answers the same however often it is asked', () => {
    const settings = { defaultQueue: 'celery', queues: {}, routes: compileRoutes({ 'a*': { queue: 'q' } }) };
    for (let round = 0; round < 3; round++) expect(findRoute(settings, 'abc')).to.deep.equal({ queue: 'q' });
  });
});
