import { expect } from 'chai';
import {
  CELERY_RULES,
  type CelerySettings,
  parseCeleryOptions,
  QUEUE_RULES,
  ROUTE_RULES,
  TRANSPORT_RULES,
} from '../../lib/celery-options';
import { findRoute } from '../../lib/message/routing';
import { refusal } from '../support/refusal';

const SECRET = 'hunter2';
const parse = (options: Record<string, unknown>): CelerySettings =>
  parseCeleryOptions({ broker: 'amqp://h', ...options });
const invalid = (options: Record<string, unknown>): string =>
  refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => parse(options)).message;
const unknown = (options: Record<string, unknown>): string =>
  refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => parse(options)).message;

type Wrong = Record<string, [values: unknown[], expected: RegExp]>;
const text: [values: unknown[], expected: RegExp] = [['', 1, null, {}], /a non-empty string/];
const record: [values: unknown[], expected: RegExp] = [[null, [], 'x', 1], /an object/];
const milliseconds: [values: unknown[], expected: RegExp] = [
  [0, -1, 1.5, NaN, Infinity, '5', null, 2 ** 31],
  /a whole number of milliseconds from 1 to 2147483647/,
];
const url: [values: unknown[], expected: RegExp] = [
  ['', 'localhost', 'http://h', 'amqp:h', 'redis:/h', 'amqps://u:p@', 'redis://h:port', 5, null],
  /a URL that begins with amqp:\/\/, amqps:\/\/, redis:\/\/ or rediss:\/\//,
];

const wrong: Wrong = {
  broker: url,
  backend: url,
  queue: text,
  queues: record,
  routes: record,
  brokerOptions: record,
  backendOptions: record,
  resultExpiresSeconds: [[0, -1, 1.5, '5', null, 2 ** 31], /a whole number of seconds from 1 to 2147483647/],
  resultKeyPrefix: [[1, null, {}], /a string/],
  transportOptions: record,
  connectTimeoutMs: milliseconds,
  sendTimeoutMs: milliseconds,
  nestHeaders: [['true', 0, null], /a boolean/],
};
const wrongQueue: Wrong = {
  type: [['stream', 1, null], /'classic' or 'quorum'/],
  maxPriority: [[0, 256, 1.5, '5', null], /an integer from 1 to 255/],
  exchange: text,
  exchangeType: [['x-delayed', '', null, ['direct']], /'direct', 'topic', 'fanout' or 'headers'/],
  routingKey: text,
  arguments: [
    [null, [], 'x', { a: null }, { a: {} }, { a: [1] }],
    /an object of strings, numbers and booleans/,
  ],
};
const wrongRoute: Wrong = {
  queue: text,
  exchange: [[1, null, {}], /a string/],
  routingKey: text,
  priority: [[-1, 256, 1.5, '5', null], /an integer from 0 to 255/],
};
const wrongTransport: Wrong = {
  globalKeyprefix: [[1, null], /a string/],
  prioritySteps: [
    [[], [1], [0, 0], [0, 3, 2], [0, 10], [0, 1.5], [0, '3'], 'x', null],
    /an array of integers from 0 to 9, the first 0, each above the one before/,
  ],
  sep: text,
};

const places: [what: string, wrong: Wrong, rules: object, owner: string, place: (inner: object) => object][] =
  [
    ['celery', wrong, CELERY_RULES, 'celery', (inner) => inner],
    ['a queue', wrongQueue, QUEUE_RULES, 'celery.queues.q', (inner) => ({ queues: { q: inner } })],
    ['a route', wrongRoute, ROUTE_RULES, 'celery.routes.a.*', (inner) => ({ routes: { 'a.*': inner } })],
    [
      'the transport',
      wrongTransport,
      TRANSPORT_RULES,
      'celery.transportOptions',
      (inner) => ({ transportOptions: inner }),
    ],
  ];

describe('options of celery', () => {
  it('have defaults, and are frozen', () => {
    const settings = parseCeleryOptions({ broker: 'redis://h' });
    expect(settings).to.deep.equal({
      broker: 'redis://h',
      createOwnBroker: null,
      backend: undefined,
      routing: { defaultQueue: 'celery', queues: {}, routes: [] },
      brokerOptions: {},
      transport: { globalKeyprefix: '', prioritySteps: [0, 3, 6, 9], sep: '\x06\x16' },
      connectTimeoutMs: 5000,
      sendTimeoutMs: 10_000,
      nestHeaders: true,
    });
    expect(settings).to.be.frozen;
  });

  it('take every valid value', () => {
    const queues = {
      feeds: { type: 'classic', exchange: 'ex', exchangeType: 'topic', routingKey: 'feed.#' },
      prio: {
        maxPriority: 255,
        arguments: { 'x-message-ttl': 1, 'x-overflow': 'reject-publish', 'x-b': true },
      },
      quorum: { type: 'quorum', exchangeType: 'headers' },
    } as const;
    const settings = parseCeleryOptions({
      broker: 'amqps://u:p@h/v',
      backend: 'rediss://:p@h:6380/1',
      queue: 'jobs',
      queues,
      routes: {
        'video.*': { queue: 'video', priority: 0 },
        exact: { exchange: '', routingKey: 'k', priority: 255 },
      },
      brokerOptions: { ca: ['…'] },
      backendOptions: { tls: { ca: '…' } },
      resultExpiresSeconds: 60,
      resultKeyPrefix: 'app:',
      transportOptions: { globalKeyprefix: 'pre_', prioritySteps: [0, 1, 9], sep: ':' },
      connectTimeoutMs: 1,
      sendTimeoutMs: 2 ** 31 - 1,
      nestHeaders: false,
    });
    expect(settings).to.deep.include({
      backend: {
        url: 'rediss://:p@h:6380/1',
        options: { tls: { ca: '…' } },
        connectTimeoutMs: 1,
        expiresSeconds: 60,
        keyPrefix: 'app:',
      },
      brokerOptions: { ca: ['…'] },
      transport: { globalKeyprefix: 'pre_', prioritySteps: [0, 1, 9], sep: ':' },
      connectTimeoutMs: 1,
      sendTimeoutMs: 2 ** 31 - 1,
      nestHeaders: false,
    });
    expect(settings.routing).to.deep.include({ defaultQueue: 'jobs', queues });
    expect(findRoute(settings.routing, 'video.cut')).to.deep.equal({ queue: 'video', priority: 0 });
  });

  it('have those of the broker for a backend on the same Redis server, except its database', () => {
    const brokerOptions = { tls: { ca: '…' }, db: 7 };
    const options = (broker: unknown, backend: string, more = {}): unknown =>
      parse({ broker, backend, brokerOptions, ...more }).backend?.options;
    expect(options('rediss://h:1/0', 'rediss://:p@h:1/5')).to.deep.equal({ tls: { ca: '…' } });
    expect(options('redis://h', 'redis://h', { brokerOptions: undefined })).to.deep.equal({});
    for (const [broker, backend] of [
      ['redis://h', 'rediss://h'],
      ['redis://h', 'redis://other'],
      ['redis://h:1', 'redis://h:2'],
      ['amqp://h', 'redis://h'],
      ['amqps://h', 'amqps://h'],
      [() => undefined, 'redis://h'],
    ] as const) {
      expect(options(broker, backend), `${String(broker)} ${backend}`).to.deep.equal({});
    }
    const backendOptions = { db: 3 };
    expect(options('redis://h', 'redis://h', { backendOptions })).to.deep.equal({ db: 3 });
    expect(options('redis://h', 'redis://h', { backendOptions: {} })).to.deep.equal({});
  });

  it('have defaults for a backend, and separate its prefix as Celery 5.6 does', () => {
    const backend = (options: object): unknown => parse({ backend: 'redis://h', ...options }).backend;
    expect(backend({})).to.deep.include({ options: {}, expiresSeconds: 86_400, keyPrefix: '' });
    for (const [given, used] of [
      ...[['', ''] as const, ['app', 'app_'] as const, ['app:', 'app:'] as const, ['a_', 'a_'] as const],
      ...[['a-', 'a-'] as const, ['a.', 'a.'] as const, ['é', 'é_'] as const, ['a_b', 'a_b_'] as const],
    ]) {
      expect(backend({ resultKeyPrefix: given })).to.have.property('keyPrefix', used);
    }
  });

  it('count undefined as not given, except the broker', () => {
    const { broker: _broker, ...names } = CELERY_RULES;
    const nothing = Object.fromEntries(Object.keys(names).map((name) => [name, undefined]));
    expect(parse(nothing)).to.deep.equal(parse({}));
    expect(invalid({ broker: undefined })).to.match(/^celery: broker must be a URL .*, got undefined$/);
    parse({ queues: { q: { type: undefined } }, routes: { r: { queue: undefined } } });
  });

  for (const [what, cases, rules, owner, place] of places) {
    for (const [name, [values, expected]] of Object.entries(cases)) {
      it(`of ${what}: refuse a wrong ${name}, and say what it must be and what it was`, () => {
        for (const value of values) {
          expect(invalid({ ...place({ [name]: value }) }), String(value))
            .to.match(expected)
            .and.match(/ must be .+, got .+/)
            .and.satisfy((message: string) => message.startsWith(`${owner}: ${name} `));
        }
      });
    }

    it(`of ${what}: refuse one that does not exist, and say which do`, () => {
      for (const name of ['qeue', 'toString', '__proto__']) {
        const inner = Object.fromEntries([[name, 1]]);
        const message = unknown(Object.fromEntries(Object.entries(place(inner))));
        expect(message).to.equal(
          `${owner} has no option ${JSON.stringify(name)}, only: ${Object.keys(rules).join(', ')}`,
        );
      }
    });

    it(`of ${what}: are all checked`, () => {
      expect(Object.keys(cases)).to.have.members(Object.keys(rules));
    });
  }

  it('refuse what is no object of options', () => {
    for (const value of [null, [], 'amqp://h', 5, undefined]) {
      refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => parseCeleryOptions(value as never));
      if (value === undefined) continue;
      expect(invalid({ queues: { q: value } })).to.match(
        /^celery\.queues\.q must be given an object of options/,
      );
      expect(invalid({ routes: { r: value } })).to.match(
        /^celery\.routes\.r must be given an object of options/,
      );
    }
  });

  const malformed: [url: string, part: string][] = [
    [`amqp://u:${SECRET}%@h/v`, 'password'],
    [`amqp://u:${SECRET}%zz@h/v`, 'password'],
    [`amqp://u:pa%ss${SECRET}@h`, 'password'],
    [`rediss://:${SECRET}%2@h/1`, 'password'],
    [`redis://:%ff${SECRET}@h`, 'password'],
    [`amqps://us%er:${SECRET}@h`, 'user'],
    [`redis://%c3:${SECRET}@h`, 'user'],
    [`amqp://u:${SECRET}@h/v%`, 'path'],
    [`redis://u:${SECRET}@h/%g1`, 'path'],
    // A slash in the password that was not encoded.
    [`amqp://u:1/${SECRET}%@h`, 'path'],
  ];
  for (const option of ['broker', 'backend']) {
    it(`refuse a ${option} with a malformed percent escape, say where it is, and show no password`, () => {
      for (const [url, part] of malformed) {
        expect(invalid({ [option]: url }), url)
          .to.match(new RegExp(`^celery: ${option} must be a URL .*user, password and path percent-encoded`))
          .and.match(new RegExp(`, got one whose ${part} has a % that begins no percent-encoded UTF-8$`))
          .and.not.include(SECRET);
      }
    });

    it(`take a ${option} with escapes of any kind`, () => {
      for (const url of [
        'amqp://us%40er:p%25%2F%3a@h/%2Fv%C3%A9',
        'redis://:%F0%9F%98%80@h/1',
        'amqp://u:pä@h',
      ]) {
        const settings = parse({ [option]: url });
        expect(option === 'broker' ? settings.broker : settings.backend?.url).to.equal(url);
      }
    });
  }

  for (const option of ['broker', 'backend']) {
    it(`refuse a ${option} with files for TLS, name them, and say where they belong`, () => {
      const url = `rediss://:${SECRET}@h/0?ssl_cert_reqs=CERT_REQUIRED`;
      const files = `ssl_ca_certs=/${SECRET}&ssl_certfile=/c&ssl_keyfile=/k`;
      for (const [value, place] of [
        [`${url}&${files}`, `${option}Options.tls`],
        [`amqps://h?${files}`, `${option}Options`],
      ] as const) {
        expect(invalid({ [option]: value }))
          .to.include(`, got one with ssl_ca_certs, ssl_certfile, ssl_keyfile: give them in ${place} (`)
          .and.not.include(SECRET);
      }
      for (const name of ['ssl_ca_certs', 'ssl_certfile', 'ssl_keyfile', 'ssl_check_hostname']) {
        expect(invalid({ [option]: `${url}&${name}=x` })).to.include(`one with ${name}: `);
      }
      parse({ [option]: url });
    });
  }

  it('never show a password', () => {
    for (const broker of [`http://u:${SECRET}@h`, `u:${SECRET}@h`, `amqp://u:${SECRET}@h:port`]) {
      for (const option of ['broker', 'backend']) {
        expect(invalid({ [option]: broker })).not.to.include(SECRET);
      }
    }
  });
});
