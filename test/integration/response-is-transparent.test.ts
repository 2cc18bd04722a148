import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { expect } from 'chai';
import type { ErrorRequestHandler, Express, Request, RequestHandler, Response } from 'express';
import { createOutbox, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';
import { STACKS, type Stack } from '../support/middleware-stacks';
import { exchange, type RawRequest, withoutDate } from '../support/raw-http';

interface Case {
  readonly name: string;
  /** What is asked on one connection, all at once. By default one GET that accepts gzip. */
  readonly asks?: readonly Omit<RawRequest, 'path'>[];
  readonly answer: (req: Request, res: Response) => unknown;
}

const GZIP = { 'Accept-Encoding': 'gzip' };
const KEEP_ALIVE = { ...GZIP, Connection: 'keep-alive' };
const BIG = { text: 'outbox '.repeat(2_000) };
const pieces = (count: number, bytes: number): Readable =>
  Readable.from(Array.from({ length: count }, (_, index) => Buffer.alloc(bytes, index)));

const CASES: readonly Case[] = [
  { name: 'json', answer: (_req, res) => res.status(201).location('/orders/1').json({ id: 1 }) },
  { name: 'json over the threshold of compression', answer: (_req, res) => res.json(BIG) },
  { name: 'send of a string', answer: (_req, res) => res.send('<p>hé</p>') },
  { name: 'send of a Buffer', answer: (_req, res) => res.send(Buffer.from([0, 1, 254, 255])) },
  { name: 'send of an object', answer: (_req, res) => res.send({ id: 1 }) },
  { name: 'sendStatus', answer: (_req, res) => res.sendStatus(202) },
  { name: 'sendFile', answer: sendThisFile },
  { name: 'sendFile of a range', asks: [{ headers: { Range: 'bytes=10-99' } }], answer: sendThisFile },
  { name: 'sendFile to HEAD', asks: [{ method: 'HEAD', headers: GZIP }], answer: sendThisFile },
  {
    name: 'download',
    answer: (_req, res) => {
      res.download(__filename, 'a "file".ts');
    },
  },
  {
    name: 'redirect',
    answer: (_req, res) => {
      res.redirect('/elsewhere');
    },
  },
  {
    name: 'redirect to HEAD',
    asks: [{ method: 'HEAD' }],
    answer: (_req, res) => {
      res.redirect(303, '/');
    },
  },
  {
    name: 'cookies',
    answer: (_req, res) => res.cookie('a', '1').cookie('b', '2', { httpOnly: true }).json(1),
  },
  { name: 'type and end', answer: (_req, res) => res.type('text').end('body') },
  { name: 'end without a body', answer: (_req, res) => res.end() },
  { name: 'end with an empty body', answer: (_req, res) => res.end('') },
  { name: 'end in hexadecimal', answer: (_req, res) => res.end('00ff', 'hex') },
  { name: 'end with a callback', answer: (_req, res) => res.end('body', () => undefined) },
  {
    name: 'a bare second end',
    answer(_req, res) {
      res.end('body');
      res.end();
    },
  },
  {
    name: 'write, write, end',
    answer(_req, res) {
      res.write('one');
      res.write('tw\u00f6', 'latin1');
      res.end('three');
    },
  },
  {
    name: 'write and end with a Content-Length',
    answer(_req, res) {
      res.setHeader('Content-Length', 6);
      res.write('one');
      res.end('two');
    },
  },
  {
    name: 'writeHead with an object',
    answer: (_req, res) =>
      res
        .writeHead(202, { 'x-CaSe': 'kept', 'Set-Cookie': ['a=1', 'b=2'], 'Content-Type': 'text/plain' })
        .end('x'),
  },
  {
    name: 'writeHead with a flat list',
    answer: (_req, res) =>
      res.writeHead(200, ['X-One', '1', 'x-two', '2', 'Content-Length', '4']).end('body'),
  },
  {
    name: 'writeHead with a status message and headers',
    answer: (_req, res) => res.writeHead(200, 'Quite Fine', { 'X-One': '1' }).end('body'),
  },
  { name: 'writeHead without headers', answer: (_req, res) => res.writeHead(203).end('body') },
  { name: 'writeHead of a fraction', answer: (_req, res) => res.writeHead(200.5).end('body') },
  {
    name: 'writeHead over headers that were set',
    answer: (_req, res) =>
      res.set('X-One', 'old').set('X-Two', '2').writeHead(200, { 'x-one': 'new' }).end('x'),
  },
  {
    name: 'writeHead, the body later',
    async answer(_req, res) {
      res.writeHead(200, { 'Content-Type': 'text/plain' });
      await nextTurn();
      res.write('late');
      await nextTurn();
      res.end('r');
    },
  },
  {
    name: 'flushHeaders, the body later',
    async answer(_req, res) {
      res.type('text/event-stream').flushHeaders();
      for (let event = 0; event < 5; event += 1) {
        await nextTurn();
        res.write(`data: ${event}\n\n`);
      }
      res.end();
    },
  },
  {
    name: 'a status message',
    answer(_req, res) {
      res.statusMessage = 'Made It';
      res.status(201).json({ id: 1 });
    },
  },
  {
    name: 'trailers',
    answer(_req, res) {
      res.setHeader('Trailer', 'X-Sum');
      res.write('body');
      res.addTrailers({ 'X-Sum': '4' });
      res.end();
    },
  },
  {
    name: 'early hints',
    answer(_req, res) {
      res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' });
      res.json({ id: 1 });
    },
  },
  {
    name: 'a body that is encoded already',
    answer: (_req, res) => res.set('Content-Encoding', 'br').send(BIG),
  },
  {
    name: 'a body not to be transformed',
    answer: (_req, res) => res.set('Cache-Control', 'no-transform').send(BIG),
  },
  { name: 'a pipe of small pieces', answer: (_req, res) => pieces(20, 100).pipe(res.type('text')) },
  { name: 'a pipe of large pieces', answer: (_req, res) => pieces(20, 70_000).pipe(res.type('text')) },
  { name: 'a pipe of a file', answer: (_req, res) => createReadStream(__filename).pipe(res.type('text')) },
  {
    name: 'a pipeline through gzip',
    answer: (_req, res) =>
      pipeline(createReadStream(__filename), createGzip(), res.set('Content-Encoding', 'gzip')),
  },
  {
    name: 'a pipeline from a generator',
    answer: (_req, res) =>
      pipeline(function* () {
        for (let line = 0; line < 50; line += 1) yield `line ${line}\n`;
      }, res.type('text')),
  },
  {
    name: 'writing on after drain',
    async answer(_req, res) {
      res.type('text');
      for (let line = 0; line < 10; line += 1) {
        if (!res.write(`line ${line}\n`)) await new Promise((resolve) => res.once('drain', resolve));
      }
      res.end();
    },
  },
  {
    name: 'an echo',
    asks: [{ method: 'POST', headers: GZIP, body: 'said' }],
    answer: (req, res) => req.pipe(res),
  },
  {
    name: 'an echo after 100 Continue',
    asks: [{ method: 'PUT', headers: { Expect: '100-continue' }, body: 'said' }],
    answer: (req, res) => req.pipe(res),
  },
  { name: 'json to HEAD', asks: [{ method: 'HEAD', headers: GZIP }], answer: (_req, res) => res.json(BIG) },
  {
    name: 'write and end to HEAD',
    asks: [{ method: 'HEAD' }],
    answer(_req, res) {
      res.write('not');
      res.end('sent');
    },
  },
  { name: '204', answer: (_req, res) => res.status(204).end() },
  { name: '204 with a body that may not leave', answer: (_req, res) => res.status(204).json({ id: 1 }) },
  {
    name: '304',
    asks: [{ headers: { 'If-None-Match': '"v1"' } }],
    answer: (_req, res) => res.set('ETag', '"v1"').json({ id: 1 }),
  },
  { name: '404', answer: (_req, res) => res.status(404).json({ id: null }) },
  {
    name: 'an error',
    answer() {
      throw new Error('refused');
    },
  },
  {
    name: 'Connection: close',
    asks: [{ headers: KEEP_ALIVE }],
    answer: (_req, res) => res.set('Connection', 'close').json(1),
  },
  { name: 'HTTP/1.0', asks: [{ version: '1.0' }], answer: (_req, res) => res.json({ id: 1 }) },
  {
    name: 'HTTP/1.0 without a length',
    asks: [{ version: '1.0' }],
    answer: (_req, res) => pieces(3, 10).pipe(res),
  },
  {
    name: 'HTTP/1.0 kept alive',
    asks: [{ version: '1.0', headers: KEEP_ALIVE }, { version: '1.0' }],
    answer: (_req, res) => res.json({ id: 1 }),
  },
  {
    name: 'pipelined requests',
    asks: [{ headers: KEEP_ALIVE }, { method: 'POST', headers: KEEP_ALIVE, body: 'x' }, { method: 'HEAD' }],
    answer: (_req, res) => res.json(BIG),
  },
  {
    name: 'pipelined streams',
    asks: [{ headers: KEEP_ALIVE }, { headers: KEEP_ALIVE }, { headers: GZIP }],
    answer: (_req, res) => pieces(5, 20_000).pipe(res.type('text')),
  },
];

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`the response is what it would be without us (${version})`, () => {
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

    for (const name of ['express-session before', 'express-session behind'] as const) {
      it(`a session is changed and read back, with ${name}`, async () => {
        const app = express();
        app.use(...STACKS[name](outbox.middleware({ when: () => true })));
        app.all('/', (req, res) => {
          const session = (req as unknown as { session: { visits?: number } }).session;
          session.visits = (session.visits ?? 0) + 1;
          res.json({ visits: session.visits });
        });
        const server = await listen(app);
        try {
          const { headers } = await ask(server.url);
          const Cookie = headers['set-cookie']![0]!.split(';')[0]!;
          expect((await ask(server.url, { headers: { Cookie } })).text).to.equal('{"visits":2}');
          expect((await ask(server.url, { headers: { Cookie } })).text).to.equal('{"visits":3}');
        } finally {
          await server.close();
        }
      });
    }

    for (const [name, stack] of Object.entries(STACKS)) {
      describe(`with ${name}`, () => {
        let plain: TestServer;
        let held: TestServer;
        before(async () => {
          plain = await listen(createApp(express(), stack, (_req, _res, next) => next()));
          held = await listen(createApp(express(), stack, outbox.middleware({ when: () => true })));
        });
        after(() => Promise.all([plain.close(), held.close()]));

        CASES.forEach(({ name: title, asks = [{ headers: GZIP }] }, index) => {
          it(title, async () => {
            const requests = asks.map((request) => ({ ...request, path: `/${index}` }));
            const [expected, received] = await Promise.all(
              [plain, held].map(({ port }) => exchange(port, ...requests)),
            );
            expect(expected).to.match(/^HTTP\/1.1 \d+ /);
            expect(withoutDate(received!)).to.equal(withoutDate(expected!));
          });
        });
      });
    }
  });
}

function createApp(app: Express, stack: Stack, outbox: RequestHandler): Express {
  // Without it a bare response has no header at all, and Node takes another way through writeHead.
  app.disable('x-powered-by');
  app.use(...stack(outbox));
  CASES.forEach(({ answer }, index) => {
    app.all(`/${index}`, (req, res, next) => {
      Promise.resolve()
        .then(() => answer(req, res))
        .catch(next);
    });
  });
  const report: ErrorRequestHandler = (error: Error, _req, res, _next) => {
    res.status(500).json({ error: error.message });
  };
  app.use(report);
  return app;
}

function sendThisFile(_req: Request, res: Response): void {
  res.sendFile(__filename);
}
