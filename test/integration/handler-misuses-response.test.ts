import { expect } from 'chai';
import type { ErrorRequestHandler, Express, Request, RequestHandler, Response } from 'express';
import { type CeleryOutboxError, createOutbox, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { eventually } from '../support/eventually';
import { holdCommit, makeCommitHoldable } from '../support/held-commit';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';
import { exchange, withoutDate } from '../support/raw-http';

type Answer = (req: Request, res: Response) => unknown;
/** For what the types forbid. */
const any = (value: unknown): never => value as never;

/** What Node refuses: it must tell the handler, not us after the COMMIT. */
const INVALID: Readonly<Record<string, Answer>> = {
  'writeHead(99)': (_req, res) => res.writeHead(99),
  'writeHead(1000)': (_req, res) => res.writeHead(1000),
  'writeHead of a word': (_req, res) => res.writeHead(any('fine')),
  'writeHead with a line break in a value': (_req, res) => res.writeHead(200, { 'X-A': 'a\r\nX-B: b' }),
  'writeHead with a line break in a list': (_req, res) => res.writeHead(200, ['X-A', 'a\nb']),
  'writeHead with an undefined value': (_req, res) => res.writeHead(200, { 'X-A': undefined }),
  'writeHead with an invalid name': (_req, res) => res.writeHead(200, { 'X A': 'a' }),
  'writeHead with a list of odd length': (_req, res) => res.writeHead(200, ['X-A']),
  'writeHead with a list of pairs': (_req, res) =>
    res.set('X-A', 'a').writeHead(
      200,
      any([
        ['X-A', 'a'],
        ['X-B', 'b'],
      ]),
    ),
  'writeHead with a line break in the message': (_req, res) => res.writeHead(200, 'a\nb'),
  'a status message with a line break': (_req, res) => {
    res.statusMessage = 'a\nb';
    res.end();
  },
  'a status that is none, then end': (_req, res) => {
    res.statusCode = 9999;
    res.end('body');
  },
  'a status that is none, then write': (_req, res) => {
    res.statusCode = 9999;
    res.write('body');
  },
  'a status that is none, then flushHeaders': (_req, res) => {
    res.statusCode = 9999;
    res.flushHeaders();
  },
  'write(null)': (_req, res) => res.write(null),
  'write(undefined)': (_req, res) => res.write(undefined),
  'write(42)': (_req, res) => res.write(42),
  'end of an object': (_req, res) => res.end({}),
  'end of a number, with a callback': (_req, res) => res.end(42, () => undefined),
  'writeHead twice': (_req, res) => {
    res.writeHead(200);
    res.writeHead(201);
  },
  'setHeader after writeHead': (_req, res) => res.writeHead(200).setHeader('X-A', 'a'),
};

/** A complete answer, and what must not follow it. */
const CONTRADICTIONS: Readonly<Record<string, readonly [first: Answer, second: Answer]>> = {
  'json and json': [first, (_req, res) => res.json({ second: true })],
  'json and redirect': [
    first,
    (_req, res) => {
      res.redirect('/');
    },
  ],
  'json and end with a body': [first, (_req, res) => res.end('second')],
  'json and write': [first, (_req, res) => res.write('second')],
  'json and writeHead': [first, (_req, res) => res.writeHead(404)],
  'json and setHeader': [first, (_req, res) => res.setHeader('X-Second', '2')],
};

function first(_req: Request, res: Response): void {
  res.json({ first: true });
}

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`a handler misuses its response (${version})`, () => {
    const logger = recordingLogger();
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer | undefined;

    before(async () => {
      db = await createDatabase();
      await makeCommitHoldable(db);
      outbox = createOutbox({ knex: db.knex, logger });
    });
    beforeEach(async () => {
      logger.lines.length = 0;
      await db.empty();
    });
    afterEach(async () => {
      await server?.close();
      server = undefined;
      // Where Express cut the connection, the client may know before the rollback is through.
      await eventually(() => {
        expect(db.inUse()).to.equal(0);
      });
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    async function serve(answer: Answer): Promise<TestServer> {
      server = await listen(createApp(express(), outbox.middleware(), answer));
      return server;
    }

    async function expectStored(count: number): Promise<void> {
      expect(await db.knex('orders')).to.have.length(count);
      expect(await db.rows()).to.have.length(count);
    }

    for (const [name, answer] of Object.entries(INVALID)) {
      for (const headers of [{}, { 'X-Set': 'before' }]) {
        it(`${name} fails as it does in Node, ${Object.keys(headers).length} headers set`, async () => {
          const thrown: Error[] = [];
          const misuse: Answer = (req, res) => {
            res.set(headers);
            try {
              return answer(req, res);
            } catch (error) {
              thrown.push(error as Error);
              throw error;
            }
          };
          const plain = await listen(createApp(express(), without, misuse));
          const held = await serve(misuse);
          try {
            const request = { method: 'POST', path: '/' };
            const expected = await exchange(plain.port, request);
            const received = await exchange(held.port, request);
            expect(withoutDate(received)).to.equal(withoutDate(expected));
            const [inNode, withUs] = thrown.map((error) => ({
              type: Object.getPrototypeOf(error) as unknown,
              code: (error as NodeJS.ErrnoException).code,
              message: error.message,
            }));
            expect(inNode?.code).to.match(/^ERR_/);
            expect(withUs).to.deep.equal(inNode);
          } finally {
            await plain.close();
          }
          await expectStored(0);
        });
      }
    }

    // Node would have begun to answer by then: 200, and a connection cut off. Ours has not, and need not.
    it('an unknown encoding fails before anything has left', async () => {
      const codes: unknown[] = [];
      for (const method of ['write', 'end'] as const) {
        const { url } = await serve((_req, res) => res[method]('body', any('klingon')));
        const { status, text } = await ask(url);
        codes.push([status, JSON.parse(text)]);
        await server?.close();
      }
      server = undefined;
      expect(codes).to.deep.equal(Array(2).fill([500, { code: 'ERR_UNKNOWN_ENCODING' }]));
      await expectStored(0);
    });

    for (const [name, [first, second]] of Object.entries(CONTRADICTIONS)) {
      it(`answers twice in one breath, ${name}: 500, and nothing is stored`, async () => {
        const { url } = await serve((req, res) => {
          first(req, res);
          second(req, res);
        });
        const { status, text, headers } = await ask(url);
        expect(status).to.equal(500);
        expect(JSON.parse(text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_ANSWERED_TWICE' });
        expect(headers).not.to.have.any.keys('location', 'x-second');
        await expectStored(0);
      });

      it(`answers twice while COMMIT is in flight, ${name}: the first answer stands`, async () => {
        const commit = await holdCommit(db);
        const { url } = await serve(async (req, res) => {
          first(req, res);
          await commit.pending();
          second(req, res);
          await commit.release();
        });
        const { status, text, headers } = await ask(url);
        expect(status).to.equal(200);
        expect(text).to.equal('{"first":true}');
        expect(headers).not.to.have.any.keys('location', 'x-second');
        expect(logger.lines.map(({ message }) => message)).to.deep.equal(['celery_outbox_answered_twice']);
        await expectStored(1);
      });
    }

    it('a bare second end is harmless, at once and while COMMIT is in flight', async () => {
      const commit = await holdCommit(db);
      const { url } = await serve(async (_req, res) => {
        res.end('first').end();
        await commit.pending();
        res.end();
        await commit.release();
      });
      const { status, text } = await ask(url);
      expect([status, text]).to.deep.equal([200, 'first']);
      expect(logger.lines).to.deep.equal([]);
      await expectStored(1);
    });

    it('answers again after the answer has left: the handler hears of it, the client does not', async () => {
      const again = new Promise((resolve) => {
        void serve((req, res) => {
          first(req, res);
          res.on('finish', () => {
            try {
              res.json({ second: true });
            } catch (error) {
              resolve(error);
            }
          });
        });
      });
      const { url } = await eventually(() => server ?? expect.fail('not listening'));
      const { status, text } = await ask(url);
      expect([status, text]).to.deep.equal([200, '{"first":true}']);
      expect(await again).to.have.property('code', 'ERR_HTTP_HEADERS_SENT');
      await expectStored(1);
    });

    it('throws in the same breath as its answer: rolled back, and the connection is closed', async () => {
      const { port } = await serve((req, res) => {
        first(req, res);
        throw new Error('too late');
      });
      expect(await exchange(port, { method: 'POST', path: '/' })).to.equal('');
      await eventually(() => {
        expect(db.inUse()).to.equal(0);
      });
      await expectStored(0);
    });
  });
}

function createApp(app: Express, outbox: RequestHandler, answer: Answer): Express {
  // Express prints what no error handler of the application could answer.
  app.set('env', 'test');
  app.disable('x-powered-by');
  app.use(outbox);
  app.post('/', (req, res, next) => {
    store(req)
      .then(() => answer(req, res))
      .catch(next);
  });
  const report: ErrorRequestHandler = (error: CeleryOutboxError, _req, res, next) => {
    if (res.headersSent) {
      next(error);
      return;
    }
    res.statusMessage = 'Broken';
    res.status(500).json({ code: error.code });
  };
  app.use(report);
  return app;
}

const without: RequestHandler = (_req, _res, next) => {
  next();
};

/** In the application without us there is no transaction. */
async function store(req: Partial<Request>): Promise<void> {
  await req.trx?.('orders').insert({ note: null });
  await req.celery?.sendTask('orders.process');
}
