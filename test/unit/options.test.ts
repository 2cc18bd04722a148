import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { CeleryOutboxError } from '../../lib';
import { parseMiddlewareOptions, parseOutboxOptions } from '../../lib/options';
import { recordingLogger } from '../support/log';

const SECRET = 'hunter2';

describe('options', () => {
  // Without a connection: knex opens none before the first statement.
  let knex: Knex;
  let logger: ReturnType<typeof recordingLogger>;
  before(() => {
    knex = createKnex({ client: 'pg', connection: 'postgres://nobody@127.0.0.1:1/none' });
    logger = recordingLogger();
  });
  after(() => knex.destroy());

  const outbox = (options: Record<string, unknown>): unknown =>
    parseOutboxOptions({ knex, logger, ...options });
  const middleware = (options: unknown): unknown => parseMiddlewareOptions(options as never);

  function refusal(parse: () => unknown): CeleryOutboxError {
    try {
      parse();
    } catch (error) {
      if (error instanceof CeleryOutboxError) return error;
      throw error;
    }
    throw new Error('expected a refusal');
  }

  describe('of createOutbox', () => {
    it('have defaults, and are frozen', () => {
      const settings = parseOutboxOptions({ knex, logger });
      expect(settings).to.include({
        knex,
        logger,
        celery: undefined,
        strict: false,
        redact: undefined,
        logContextKeys: undefined,
        trace: undefined,
        notify: true,
        maxPayloadBytes: 1_048_576,
        idempotencyWindowMs: 86_400_000,
        commitTimeoutMs: 10_000,
      });
      expect(settings.excludeTasks).to.deep.equal([]);
      expect(settings.names).to.include({ outbox: '"celery_outbox"', schema: undefined });
      for (const frozen of [settings, settings.names, settings.excludeTasks]) expect(frozen).to.be.frozen;
    });

    it('are copied: a later change of what was given changes nothing', () => {
      const excludeTasks = ['a'];
      const celery = { broker: 'redis://h', queues: { q: { exchange: 'x' } }, routes: { t: { queue: 'q' } } };
      const logContext = { keys: ['id'] };
      const settings = parseOutboxOptions({ knex, logger, excludeTasks, celery, logContext });
      excludeTasks.push('b');
      celery.broker = 'redis://other';
      celery.queues.q.exchange = 'other';
      celery.routes.t.queue = 'other';
      logContext.keys.push('other');
      expect(settings.excludeTasks).to.deep.equal(['a']);
      expect(settings.celery).to.include({ broker: 'redis://h', backend: undefined });
      expect(settings.celery?.routing).to.deep.equal({
        defaultQueue: 'celery',
        queues: { q: { exchange: 'x' } },
        routes: [{ pattern: 't', options: { queue: 'q' } }],
      });
      expect(settings.celery).to.be.frozen;
      expect([...(settings.logContextKeys ?? [])]).to.deep.equal(['id']);
    });

    it('take every valid value, and undefined as not given', () => {
      const given = {
        celery: { broker: 'amqps://u:p@h/v', backend: 'rediss://h/1', queue: 'q' },
        excludeTasks: ['a', /b/],
        strict: true,
        redact: () => ({ args: [], kwargs: {} }),
        logContext: { keys: [] },
        trace: false,
        notify: false,
        maxPayloadBytes: 1,
        idempotencyWindowMs: Number.MAX_SAFE_INTEGER,
        commitTimeoutMs: 2 ** 31 - 1,
        tableName: 'tasks',
        schema: 'jobs',
      };
      expect(outbox(given)).to.deep.include({
        strict: true,
        trace: false,
        notify: false,
        maxPayloadBytes: 1,
      });
      outbox(Object.fromEntries(Object.keys(given).map((name) => [name, undefined])));
    });

    const wrong: [option: string, values: unknown[], expected: string][] = [
      ['knex', [undefined, null, {}, 'pg', () => 1], 'a Knex instance for PostgreSQL'],
      ['celery', [null, 'redis://h', [], 1], 'an object { broker'],
      ['excludeTasks', ['a', [1], [null], {}], 'an array of task names'],
      ['strict', ['true', 1, null], 'a boolean'],
      ['redact', [true, {}], 'a function'],
      [
        'logContext',
        [['id'], {}, { keys: 'id' }, { keys: [1] }, { keys: [], other: 1 }],
        '{ keys: string[] }',
      ],
      ['trace', [true, {}, 'x'], 'false or a function'],
      ['logger', [{}, 'winston', { debug() {}, info() {}, warn() {} }], 'debug, info, warn and error'],
      ['notify', ['false', 0, null], 'a boolean'],
      ['maxPayloadBytes', [0, -1, 1.5, NaN, Infinity, '1'], 'a whole number of bytes above 0'],
      ['idempotencyWindowMs', [0, 1.5, '1', Infinity], 'a whole number of milliseconds above 0'],
      ['commitTimeoutMs', [0, 2 ** 31, '1'], 'from 1 to 2147483647'],
      ['tableName', ['', 1, 'a-b', 'x'.repeat(37)], ''],
      ['schema', ['', null, 'a.b'], ''],
    ];
    for (const [option, values, expected] of wrong) {
      it(`refuse a wrong ${option}, and say what it must be and what it was`, () => {
        for (const value of values) {
          const error = refusal(() => outbox({ [option]: value }));
          expect(error.code).to.equal('ERR_CELERY_OUTBOX_INVALID_OPTION');
          expect(error.message)
            .to.include(option)
            .and.include(expected)
            .and.match(/ must be .+, got .+/);
          expect(error.message.length).to.be.below(300);
        }
      });
    }

    it('refuse a transaction, or a Knex for another database, as knex', () => {
      const sqlite = Object.assign(() => undefined, { client: { dialect: 'sqlite3' } });
      const trx = Object.assign(() => undefined, { client: { dialect: 'postgresql' }, isTransaction: true });
      for (const value of [sqlite, trx]) {
        expect(refusal(() => outbox({ knex: value })).message).to.match(/not a transaction, got a function$/);
      }
    });

    it('refuse a wrong broker, backend or queue, and a celery without a broker', () => {
      const broker = 'redis://h';
      const refused = [
        [{ broker: 'http://h' }, 'celery: broker'],
        [{ broker: 'h:6379' }, 'celery: broker'],
        [{ broker: 'redis://h:port' }, 'celery: broker'],
        [{}, 'celery: broker'],
        [{ broker, backend: 'postgres://h' }, 'celery: backend'],
        [{ broker, queue: '' }, 'celery: queue'],
      ] as const;
      for (const [celery, what] of refused) {
        const error = refusal(() => outbox({ celery }));
        expect(error.code).to.equal('ERR_CELERY_OUTBOX_INVALID_OPTION');
        expect(error.message).to.match(new RegExp(`^${what} must be `));
      }
      expect(refusal(() => outbox({ celery: { broker, url: 'x' } })).code).to.equal(
        'ERR_CELERY_OUTBOX_UNKNOWN_OPTION',
      );
    });

    it('refuse excludeTasks without celery', () => {
      expect(refusal(() => outbox({ excludeTasks: ['a'] })).message).to.match(/excludeTasks: celery must be/);
      outbox({ excludeTasks: [] });
    });

    it('refuse what does not exist, with the names of what does', () => {
      for (const name of ['brokerUrl', 'constructor', '__proto__x', '']) {
        const error = refusal(() => outbox({ [name]: SECRET }));
        expect(error.code).to.equal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION');
        expect(error.message).to.include(JSON.stringify(name)).and.include('maxPayloadBytes');
        expect(error.message).not.to.include(SECRET);
      }
    });

    it('refuse what is no object', () => {
      for (const value of [undefined, null, 'x', [], () => SECRET]) {
        const { message } = refusal(() => parseOutboxOptions(value as never));
        expect(message).to.match(/^createOutbox must be .*object.*, got /);
        expect(message).not.to.include(SECRET);
      }
    });

    it('never show credentials', () => {
      const urls = [
        `http://u:${SECRET}@h`,
        `u:${SECRET}@h`,
        `http://h?password=${SECRET}`,
        `h:6379:${SECRET}`,
      ];
      for (const url of urls) {
        const attempts = [
          { celery: { broker: url } },
          { celery: { broker: 'redis://h', backend: url } },
          { celery: url },
          { knex: url },
          { logger: url },
          { excludeTasks: url },
          { maxPayloadBytes: url },
        ];
        for (const options of attempts) expect(refusal(() => outbox(options)).message).not.to.include(SECRET);
      }
    });
  });

  describe('of the middleware', () => {
    it('have defaults, and are frozen', () => {
      const settings = parseMiddlewareOptions();
      expect(settings).to.be.frozen;
      expect(settings).to.include({ onAbort: 'rollback', timeoutMs: 30_000 });
      expect(settings.context).to.equal(undefined);
      const wanted = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'HEAD', 'OPTIONS'].filter((method) =>
        settings.when({ method } as never),
      );
      expect(wanted).to.deep.equal(['POST', 'PUT', 'PATCH', 'DELETE']);
      const committed = [200, 204, 302, 399, 400, 404, 500].filter((statusCode) =>
        settings.shouldCommit({} as never, { statusCode } as never),
      );
      expect(committed).to.deep.equal([200, 204, 302, 399]);
    });

    const wrong: [option: string, values: unknown[], expected: string][] = [
      ['when', [true, 'POST'], 'a function'],
      ['onAbort', ['commit', true, null], "'rollback' or 'continue'"],
      ['shouldCommit', [false], 'a function'],
      ['timeoutMs', [0, -1, 1.5, '30', 2 ** 31, Infinity], 'from 1 to 2147483647'],
      ['context', [{}], 'a function'],
    ];
    for (const [option, values, expected] of wrong) {
      it(`refuse a wrong ${option}`, () => {
        for (const value of values) {
          const error = refusal(() => middleware({ [option]: value }));
          expect(error.code).to.equal('ERR_CELERY_OUTBOX_INVALID_OPTION');
          expect(error.message).to.include(`middleware: ${option} must be `).and.include(expected);
        }
      });
    }

    it('refuse what does not exist, and what is no object', () => {
      const error = refusal(() => middleware({ timeout: 1 }));
      expect(error.code).to.equal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION');
      expect(error.message).to.include('"timeout"').and.include('timeoutMs');
      for (const value of [null, 'x', () => 1]) {
        expect(refusal(() => middleware(value)).code).to.equal('ERR_CELERY_OUTBOX_INVALID_OPTION');
      }
    });
  });
});
