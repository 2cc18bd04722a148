import { PassThrough, Readable } from 'node:stream';
import { expect } from 'chai';
import type { ErrorRequestHandler, Express, Request, RequestHandler, Response } from 'express';
import { CeleryOutboxError, createOutbox, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { recordingLogger } from '../support/log';
import { STACKS, type Stack } from '../support/middleware-stacks';
import { exchange, withoutDate } from '../support/raw-http';

type Answer = (req: Request, res: Response) => unknown;

const BIG = 'outbox '.repeat(2_000);

/** What the handler says; nothing of it may reach the client. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  'a small body': (_req, res) => res.status(201).location('/orders/1').cookie('a', '1').json({ id: 1 }),
  'a large body': (_req, res) => res.type('html').send(BIG),
  'no body': (_req, res) => res.status(204).end(),
  'a redirect': (_req, res) => {
    res.redirect('/elsewhere');
  },
  'a file': (_req, res) => {
    res.sendFile(__filename);
  },
  'small pieces': (_req, res) => Readable.from(['a', 'b', 'c']).pipe(res.type('text')),
  'large pieces': (_req, res) => Readable.from([BIG, BIG, BIG]).pipe(res.type('text')),
  'a piece at each drain': (_req, res) => {
    res.write('first');
    res.on('drain', () => res.write('next'));
  },
  'a pipe that gets going when the error handler does': (req, res) => {
    res.flushHeaders();
    const source = new PassThrough();
    source.pipe(res);
    req.once('apologising', () => source.write('late'));
  },
  'an explicit head': (_req, res) =>
    res
      .writeHead(202, 'Very Well', { 'Content-Length': BIG.length, Connection: 'close', Date: 'never' })
      .end(BIG),
  'a head that is flushed': (_req, res) => {
    res.set('Content-Encoding', 'br').flushHeaders();
  },
  'headers added, changed and removed': (_req, res) => {
    res.appendHeader('X-List', 'handler');
    res.setHeader('x-before', 'changed');
    res.setHeader('Transfer-Encoding', 'chunked');
    res.removeHeader('Date');
    res.removeHeader('Connection');
    res.removeHeader('X-Removed');
    res.statusMessage = 'Wonderful';
    res.write('body');
    res.addTrailers({ 'X-Sum': '4' });
    res.end();
  },
};

/** What the application's error handler says: that, and only that, is what the client gets. */
const APOLOGIES: Readonly<Record<string, (res: Response, code: string) => unknown>> = {
  json: (res, code) => res.status(500).json({ code }),
  large: (res, code) => res.status(500).json({ code, help: BIG }),
  streamed: (res, code) => {
    Readable.from([code, ...Array<string>(20).fill(BIG)]).pipe(res.status(500));
    res.req.emit('apologising');
  },
  bare: (res, code) => res.writeHead(500).end(code),
  implicit: (res, code) => res.status(500).end(code),
  chunked: (res, code) => {
    res.status(500).write(code);
    res.end();
  },
};

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`a failed COMMIT discards the response (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    before(async () => {
      db = await createDatabase();
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    for (const [name, stack] of Object.entries(STACKS)) {
      describe(`with ${name}`, () => {
        let refusing: TestServer;
        let failing: TestServer;
        before(async () => {
          refusing = await listen(createApp(express(), layersBefore(stack), refuse));
          failing = await listen(createApp(express(), stack(outbox.middleware()), answerInVain));
        });
        after(() => Promise.all([refusing.close(), failing.close()]));
        afterEach(async () => {
          expect(db.inUse()).to.equal(0);
          expect(await db.knex('orders')).to.deep.equal([]);
          expect(await db.rows()).to.deep.equal([]);
        });

        for (const answer of Object.keys(ANSWERS)) {
          it(`${answer}: the client gets what it would if the handler had only passed the error on`, async () => {
            for (const apology of Object.keys(APOLOGIES)) {
              // The next request on the connection proves that the answer ended where it says.
              const requests = [
                { method: 'POST', headers: { Answer: answer, Apology: apology, Connection: 'keep-alive' } },
                { method: 'GET', headers: {} },
              ].map((request) => ({
                ...request,
                path: '/',
                headers: { 'Accept-Encoding': 'gzip', ...request.headers },
              }));
              const [expected, received] = await Promise.all([
                exchange(refusing.port, ...requests),
                exchange(failing.port, ...requests),
              ]);
              expect(expected).to.match(
                /^HTTP\/1.1 500 [^]*\r\nX-Before: kept\r\n[^]*HTTP\/1.1 200 OK\r\n[^]*fine/,
              );
              expect(withoutDate(received)).to.equal(withoutDate(expected));
            }
          });
        }
      });
    }

    it('a stream is not read on', async () => {
      let pulled = 0;
      const answer: RequestHandler = (req, res, next) => {
        const source = new Readable({
          read() {
            pulled += 1;
            this.push(BIG);
          },
        });
        failAtCommit(req)
          .then(() => source.pipe(res))
          .catch(next);
        res.on('close', () => source.destroy());
      };
      const server = await listen(createApp(express(), [outbox.middleware()], answer));
      try {
        const received = await exchange(server.port, {
          method: 'POST',
          path: '/',
          headers: { Apology: 'json' },
        });
        expect(received).to.match(/^HTTP\/1.1 500 [^]*ERR_CELERY_OUTBOX_COMMIT_FAILED/);
        expect(pulled).to.be.at.most(10);
      } finally {
        await server.close();
      }
    });
  });
}

function createApp(app: Express, layers: readonly RequestHandler[], post: RequestHandler): Express {
  app.use((_req, res, next) => {
    res.setHeader('X-Before', 'kept');
    res.setHeader('X-List', ['before']);
    res.setHeader('X-Removed', 'not really');
    next();
  });
  app.get('/', (_req, res) => res.end('fine'));
  if (layers.length > 0) app.use(...layers);
  app.post('/', post);
  const apologise: ErrorRequestHandler = (error: CeleryOutboxError, req, res, _next) => {
    APOLOGIES[req.get('Apology')!]!(res, error.code);
  };
  app.use(apologise);
  return app;
}

const refuse: RequestHandler = (_req, _res, next) => {
  next(new CeleryOutboxError('ERR_CELERY_OUTBOX_COMMIT_FAILED', 'refused'));
};

const answerInVain: RequestHandler = (req, res, next) => {
  failAtCommit(req)
    .then(() => ANSWERS[req.get('Answer')!]!(req, res))
    .catch(next);
};

async function failAtCommit(req: Request): Promise<void> {
  await req.celery.sendTask('orders.process');
  await req.trx('orders').insert({ parent_id: 404 });
}

/** Those behind us are discarded with the response. */
function layersBefore(stack: Stack): RequestHandler[] {
  const outbox: RequestHandler = (_req, _res, next) => {
    next();
  };
  const layers = stack(outbox);
  return layers.slice(0, layers.indexOf(outbox));
}
