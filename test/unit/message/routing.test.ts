import { expect } from 'chai';
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
    ['an exchange only', { exchange: 'e' }, { exchange: 'e', routingKey: '', queue: null }],
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

  // Each checked with Python's fnmatch.
  const globs: [glob: string, matching: string[], others: string[]][] = [
    [
      'proj.video.*',
      ['proj.video.cut', 'proj.video.', 'proj.video.a.b'],
      ['proj.video', 'xproj.video.a', 'proj-video.a'],
    ],
    ['*', ['', 'a', 'a.b\nc'], []],
    ['*.rss', ['feed.rss', '.rss'], ['feed.rss2', 'rss']],
    ['a*c', ['ac', 'abc', 'a.c'], ['abcd', 'xabc']],
    ['t.?', ['t.1', 't.?', 't.é'], ['t.', 't.12']],
    ['t.[a-c]', ['t.a', 't.b', 't.c'], ['t.d', 't.A', 't.[a-c]', 't.ab']],
    ['t.[!x]', ['t.a', 't.!'], ['t.x', 't.']],
    ['t.[!a-c]*', ['t.d', 't.dabc'], ['t.a', 't.b1']],
    ['t.[^a]*', ['t.^', 't.ab'], ['t.b']],
    ['t.[\\d]*', ['t.\\', 't.dx'], ['t.5']],
    ['t.[a', ['t.[a'], ['t.a']],
    ['t.(a|b)+*', ['t.(a|b)+', 't.(a|b)+c'], ['t.a', 't.aa']],
    ['$a{1}*', ['$a{1}'], ['a']],
    ['t.[z-a]*', [], ['t.m', 't.z', 't.[z-a]']],
  ];
  for (const [glob, matching, others] of globs) {
    it(`by ${glob}`, () => {
      for (const task of matching) expect(matches(glob, task), task).to.equal(true);
      for (const task of others) expect(matches(glob, task), task).to.equal(false);
    });
  }

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
