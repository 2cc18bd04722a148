import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { get } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import { expect } from 'chai';
import type { Express, Request, Response } from 'express';
import { createOutbox, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { type HeldCommit, holdCommit, makeCommitHoldable } from '../support/held-commit';
import { recordingLogger } from '../support/log';
import { STACKS, type Stack } from '../support/middleware-stacks';
import { RawConnection, requestText } from '../support/raw-http';
import { retainedBytes } from '../support/retained-memory';

type Answer = (req: Request, res: Response) => unknown;

const WAYS: readonly (readonly [name: string, answer: Answer])[] = [
  ['json', (_req, res) => res.json({ text: 'whole body' })],
  ['end', (_req, res) => res.end('whole body')],
  [
    'sendFile',
    (_req, res) => {
      res.sendFile(__filename);
    },
  ],
  ['a pipe', (_req, res) => Readable.from(['whole', ' ', 'body']).pipe(res)],
  [
    'write',
    (_req, res) => {
      res.write('whole');
      res.end(' body');
    },
  ],
  [
    'writeHead and write',
    (_req, res) => {
      res.writeHead(200, { 'Content-Length': 10 });
      res.write('whole');
      res.end(' body');
    },
  ],
  [
    'flushHeaders',
    async (_req, res) => {
      res.flushHeaders();
      await nextTurn();
      res.end('whole body');
    },
  ],
];

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`the response waits for COMMIT (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer | undefined;
    let commit: HeldCommit;

    before(async () => {
      db = await createDatabase();
      await makeCommitHoldable(db);
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
    });
    beforeEach(async () => {
      commit = await holdCommit(db);
    });
    afterEach(async () => {
      await commit.release();
      await server?.close();
      server = undefined;
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    /** Each answer is given in a transaction whose COMMIT waits. */
    async function serve(
      answers: Readonly<Record<string, Answer>>,
      stack: Stack = STACKS['nothing else'],
    ): Promise<TestServer> {
      const app: Express = express();
      app.use(...stack(outbox.middleware({ when: () => true })));
      for (const [path, answer] of Object.entries(answers)) {
        app.get(`/${path}`, (req, res, next) => {
          req
            .trx('orders')
            .insert({ note: null })
            .then(() => answer(req, res))
            .catch(next);
        });
      }
      server = await listen(app);
      return server;
    }

    for (const [name, stack] of Object.entries(STACKS)) {
      it(`not a byte leaves before it, with ${name}`, async () => {
        const answers = Object.fromEntries(WAYS.map(([, answer], index) => [index, answer]));
        const { port, server: listening } = await serve(answers, stack);
        const sockets: Socket[] = [];
        listening.on('connection', (socket) => sockets.push(socket));
        const clients = WAYS.map((_, index) => {
          const client = new RawConnection(port);
          return { client, whole: client.finish(requestText({ path: `/${index}` })) };
        });
        await commit.pending(WAYS.length);
        expect(sockets.map((socket) => socket.bytesWritten + socket.writableLength)).to.deep.equal(
          WAYS.map(() => 0),
        );
        expect(clients.map(({ client }) => client.received).join('')).to.equal('');
        await commit.release();
        for (const { whole } of clients) {
          expect(await whole).to.match(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n[^]*whole[^]*body/);
        }
      });
    }

    it('the handler sees a response that has begun, and then one that has ended', async () => {
      const seen: unknown[] = [];
      const { port } = await serve({
        '': (_req, res) => {
          seen.push([res.headersSent, res.writableEnded]);
          seen.push(res.write('one'));
          seen.push([res.headersSent, res.writableEnded, res.writableNeedDrain]);
          for (const change of [
            () => res.setHeader('X-Late', '1'),
            () => res.appendHeader('X-Late', '1'),
            () => {
              res.removeHeader('X-Late');
            },
            () => res.writeHead(404),
            () => res.status(404).json({}),
          ]) {
            expect(change).to.throw(Error).with.property('code', 'ERR_HTTP_HEADERS_SENT');
          }
          res.end('two');
          seen.push([res.headersSent, res.writableEnded, res.writableNeedDrain, res.writableFinished]);
        },
      });
      const whole = new RawConnection(port).finish(requestText({ path: '/' }));
      await commit.pending();
      expect(seen).to.deep.equal([[false, false], false, [true, false, true], [true, true, false, false]]);
      await commit.release();
      expect(await whole).to.match(/^HTTP\/1.1 200 OK\r\n/);
    });

    it('callbacks, drain and finish come after it', async () => {
      const heard: string[] = [];
      const tell = (what: string) => () => void heard.push(what);
      const { port } = await serve({
        '': async (_req, res) => {
          res.on('finish', tell('finish')).on('close', tell('close'));
          res.write('one', tell('written'));
          await once(res, 'drain');
          heard.push('drain');
          res.end('two', tell('ended'));
          await finished(res);
          heard.push('finished');
        },
        ended: (_req, res) => {
          res.write('one', tell('written'));
          res.end(tell('ended'));
          res.end(tell('ended again'));
          void finished(res).then(tell('finished'));
        },
      });
      const streamed = new RawConnection(port).finish(requestText({ path: '/' }));
      await commit.pending();
      expect(heard).to.deep.equal([]);
      await commit.release();
      await streamed;
      await eventually(() => {
        expect(heard).to.have.members(['drain', 'written', 'finish', 'ended', 'finished', 'close']);
      });

      heard.length = 0;
      commit = await holdCommit(db);
      const ended = new RawConnection(port).finish(requestText({ path: '/ended' }));
      await commit.pending();
      expect(heard).to.deep.equal([]);
      await commit.release();
      await ended;
      await eventually(() => {
        expect(heard).to.have.members(['written', 'ended', 'ended again', 'finished']);
      });
    });

    it('end takes a callback even where compression and express-session before us would not', async () => {
      let isCalled = false;
      const answer: Answer = (_req, res) =>
        res.end(() => {
          isCalled = true;
        });
      const { port } = await serve({ '': answer }, STACKS['all of them before']);
      const whole = new RawConnection(port).finish(requestText({ path: '/' }));
      await commit.pending();
      expect(isCalled).to.equal(false);
      await commit.release();
      expect(await whole).to.match(/^HTTP\/1.1 200 OK\r\n/);
      expect(isCalled).to.equal(true);
    });

    for (const [name, stack] of Object.entries(STACKS).filter(([name]) =>
      /^(nothing|compression|all)/.test(name),
    )) {
      it(`50 MB through a pipe stay on disk until then, and never in memory, with ${name}`, async () => {
        const source = largeSource();
        const { port } = await serve({ '': (_req, res) => source.stream.pipe(res.type('text')) }, stack);
        const memory = retainedMemory();
        const answer = download(port);
        await commit.pending();
        expect(source.pulled()).to.be.at.most(1024 * 1024);
        await commit.release();
        const { hash, bytes } = await answer(() => {
          memory.sample();
        });
        expect(bytes).to.equal(SOURCE_BYTES);
        expect(hash).to.equal(source.hash());
        expect(memory.growth()).to.be.below(40 * 1024 * 1024);
      });
    }
  });
}

const CHUNK = 64 * 1024;
const SOURCE_BYTES = 50 * 1024 * 1024;

/** Not compressible, so that as much leaves with compression as without. The blocks are made once. */
const BLOCKS = Array.from({ length: 16 }, (_, index) => {
  let seed = index + 1;
  const block = Buffer.alloc(CHUNK);
  for (let at = 0; at < CHUNK; at += 4) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    block.writeUInt32LE(seed, at);
  }
  return block;
});

function largeSource(): { stream: Readable; pulled(): number; hash(): string } {
  let pulled = 0;
  const hash = createHash('sha256');
  const stream = new Readable({
    read() {
      if (pulled === SOURCE_BYTES) {
        this.push(null);
        return;
      }
      const block = BLOCKS[(pulled / CHUNK) % BLOCKS.length]!;
      hash.update(block);
      pulled += CHUNK;
      this.push(block);
    },
  });
  return { stream, pulled: () => pulled, hash: () => hash.copy().digest('hex') };
}

/** A client that lets the server go first after each piece it reads. */
function download(port: number): (sample: () => void) => Promise<{ hash: string; bytes: number }> {
  const request = get({ port, agent: false, headers: { 'Accept-Encoding': 'gzip' } });
  const responded = once(request, 'response') as Promise<[Readable & { headers: Record<string, string> }]>;
  return async (sample) => {
    const [response] = await responded;
    const body = response.headers['content-encoding'] === 'gzip' ? response.pipe(createGunzip()) : response;
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      hash.update(chunk);
      if (Math.floor(bytes / 5e6) !== Math.floor((bytes + chunk.length) / 5e6)) sample();
      bytes += chunk.length;
      await nextTurn();
    }
    return { hash: hash.digest('hex'), bytes };
  };
}

function retainedMemory(): { sample(): void; growth(): number } {
  const baseline = retainedBytes();
  let peak = baseline;
  return {
    sample() {
      peak = Math.max(peak, retainedBytes());
    },
    growth: () => peak - baseline,
  };
}
