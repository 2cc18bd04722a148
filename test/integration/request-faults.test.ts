import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { spawn } from 'node:child_process';
import { expect } from 'chai';
import connectStack from 'connect';
import type { Express, Request, Response } from 'express';
import { createOutbox, type CeleryOutboxError, type MiddlewareOptions, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { createGate } from '../support/gate';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';

type Handler = (req: Request, res: Response) => Promise<void> | void;

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`a request that goes wrong (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer | undefined;
    let errors: CeleryOutboxError[] = [];

    before(async () => {
      db = await createDatabase();
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
    });
    afterEach(async () => {
      await server?.close();
      await eventually(() => {
        expect(db.inUse()).to.equal(0);
      });
      await db.empty();
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    /** Serves one handler that first stores an order and a task; its errors go to `next`, as Express 5 does it. */
    async function serve(handler: Handler, options?: MiddlewareOptions): Promise<string> {
      const app: Express = express();
      errors = [];
      app.use(outbox.middleware(options));
      app.post('/', (req, res, next) => {
        const store = async (): Promise<void> => {
          await req.trx('orders').insert({ note: null });
          await req.celery.sendTask('orders.process', [1]);
          await handler(req, res);
        };
        store().catch(next);
      });
      app.use((error: CeleryOutboxError, _req: Request, res: Response, next: (error: unknown) => void) => {
        errors.push(error);
        if (res.headersSent) next(error);
        else res.status(error.statusCode || 500).json({ code: error.code, message: error.message });
      });
      server = await listen(app);
      return server.url;
    }

    async function expectNothingStored(): Promise<void> {
      await eventually(() => {
        expect(db.inUse()).to.equal(0);
      });
      expect(await db.rows()).to.deep.equal([]);
      expect(await db.knex('orders')).to.deep.equal([]);
    }

    it('rolls back when the handler throws or rejects', async () => {
      const url = await serve(() => {
        throw new Error('boom');
      });
      const answer = await ask(url);
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.deep.equal({ message: 'boom' });
      await expectNothingStored();
    });

    it('rolls back when the handler throws after its answer, and says no success', async () => {
      const url = await serve((_req, res) => {
        res.json({ ok: true });
        throw new Error('too late');
      });
      const answer = await ask(url).catch((error: unknown) => error);
      expect(answer).to.have.property('code', 'ECONNRESET');
      await expectNothingStored();
    });

    it('answers 503 when the handler never answers', async () => {
      const url = await serve(() => undefined, { timeoutMs: 50 });
      const answer = await ask(url);
      expect(answer.status).to.equal(503);
      expect(JSON.parse(answer.text)).to.have.property('code', 'ERR_CELERY_OUTBOX_TIMEOUT');
      await expectNothingStored();
    });

    it('answers 503 in time though a statement is running, which is cancelled', async () => {
      const url = await serve(
        async (req) => {
          await req.trx.raw('SELECT pg_sleep(60)');
        },
        { timeoutMs: 50 },
      );
      const started = Date.now();
      expect((await ask(url)).status).to.equal(503);
      expect(Date.now() - started).to.be.below(3_000);
      await expectNothingStored();
      const running = await db
        .knex('pg_stat_activity')
        .where({ query: 'SELECT pg_sleep(60)', state: 'active' });
      expect(running).to.deep.equal([]);
    });

    it('refuses what the handler still does after its time is up', async () => {
      let late: Promise<unknown> | undefined;
      const url = await serve(
        (req, res) => {
          res.once('finish', () => {
            late = req.celery.sendTask('late').catch((error: unknown) => error);
          });
        },
        { timeoutMs: 50 },
      );
      expect((await ask(url)).status).to.equal(503);
      await eventually(() => {
        expect(late).not.to.equal(undefined);
      });
      expect(await late).to.have.property('code', 'ERR_CELERY_OUTBOX_TRANSACTION_SETTLED');
      await expectNothingStored();
    });

    it('rolls back when the client goes away before the answer', async () => {
      const reached = createGate();
      const url = await serve(() => {
        reached.open();
      });
      const abort = new AbortController();
      const answer = ask(url, { signal: abort.signal }).catch((error: unknown) => error);
      await reached.opened;
      abort.abort();
      expect(await answer).to.have.property('code', 'ABORT_ERR');
      await expectNothingStored();
      expect(errors).to.deep.equal([]);
    });

    it('cancels the statement that runs when the client goes away', async () => {
      const url = await serve(async (req) => {
        await req.trx.raw('SELECT pg_sleep(60)');
      });
      const abort = new AbortController();
      const answer = ask(url, { signal: abort.signal }).catch((error: unknown) => error);
      await eventually(async () => {
        const running = await db
          .knex('pg_stat_activity')
          .where({ query: 'SELECT pg_sleep(60)', state: 'active' });
        expect(running).to.have.length(1);
      });
      abort.abort();
      await answer;
      await expectNothingStored();
    });

    it("commits without a client when onAbort is 'continue'", async () => {
      const reached = createGate();
      const url = await serve(
        async (_req, res) => {
          const closed = once(res, 'close');
          reached.open();
          await closed;
          res.json({ ok: true });
        },
        { onAbort: 'continue' },
      );
      const abort = new AbortController();
      const answer = ask(url, { signal: abort.signal }).catch((error: unknown) => error);
      await reached.opened;
      abort.abort();
      expect(await answer).to.have.property('code', 'ABORT_ERR');
      await eventually(async () => {
        expect(await db.rows()).to.have.length(1);
      });
    });

    it('rolls back when the handler destroys the response', async () => {
      const url = await serve((_req, res) => {
        res.destroy();
      });
      const answer = await ask(url).catch((error: unknown) => error);
      expect(answer).to.have.property('code', 'ECONNRESET');
      await expectNothingStored();
    });

    it('makes an un-awaited send part of the transaction', async () => {
      const url = await serve((req, res) => {
        void req.celery.sendTask('unawaited');
        res.json({ ok: true });
      });
      expect((await ask(url)).status).to.equal(200);
      expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(['orders.process', 'unawaited']);
    });

    it('answers 500 when an un-awaited send fails', async () => {
      const url = await serve((req, res) => {
        void req.celery.sendTask('unawaited', [new Map()]);
        res.json({ ok: true });
      });
      const answer = await ask(url);
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.have.property('code', 'ERR_CELERY_OUTBOX_SEND_UNFINISHED');
      expect(errors[0]?.message).to.include('args[0]');
      await expectNothingStored();
    });

    it('answers 500 when a task is sent after the answer and nobody looks', async () => {
      const url = await serve((req, res) => {
        res.json({ ok: true });
        void req.celery.sendTask('too.late');
      });
      const answer = await ask(url);
      expect(answer.status).to.equal(500);
      expect(errors[0]?.cause).to.have.property('code', 'ERR_CELERY_OUTBOX_TRANSACTION_SETTLED');
      await expectNothingStored();
    });

    it('waits for a nested transaction that was not awaited, or fails with it', async () => {
      const url = await serve((req, res) => {
        void outbox.transaction(() => req.celery.sendTask('nested'));
        res.json({ ok: true });
      });
      const answer = await ask(url);
      // The send inside came after the answer, so it was refused; and so was the answer.
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.have.property('code', 'ERR_CELERY_OUTBOX_SEND_UNFINISHED');
      await expectNothingStored();
    });

    it('answers 500 when the handler answers inside a savepoint that is still open', async () => {
      const url = await serve((req, res) => {
        void req.trx
          .transaction(async (savepoint) => {
            await savepoint('orders').insert({ note: null });
            res.json({ ok: true });
            await once(res, 'close');
          })
          .catch(() => undefined);
      });
      const answer = await ask(url);
      expect(answer.status).to.equal(500);
      expect(errors[0]?.message).to.include('a nested transaction is still open');
      await expectNothingStored();
    });

    it('answers 500 when raw SQL had ended the transaction', async () => {
      const url = await serve(async (req, res) => {
        await req.trx.raw('rollback');
        res.json({ ok: true });
      });
      const answer = await ask(url);
      expect(answer.status).to.equal(500);
      expect(errors[0]?.message).to.include('raw SQL inside had ended the transaction');
      await expectNothingStored();
    });

    it('refuses a send after the response, with a code', async () => {
      let refused: unknown;
      const url = await serve(async (req, res) => {
        res.json({ ok: true });
        await once(res, 'finish');
        refused = await req.celery.sendTask('too.late').catch((error: unknown) => error);
      });
      expect((await ask(url)).status).to.equal(200);
      await eventually(() => {
        expect(refused).to.have.property('code', 'ERR_CELERY_OUTBOX_TRANSACTION_SETTLED');
      });
      expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(['orders.process']);
    });

    it('keeps the transaction usable after an awaited send was refused', async () => {
      const url = await serve(async (req, res) => {
        const refused = await req.celery.sendTask('bad', [Number.NaN]).catch((error: unknown) => error);
        expect(refused).to.have.property('code', 'ERR_CELERY_OUTBOX_UNENCODABLE');
        res.json({ ok: true });
      });
      expect((await ask(url)).status).to.equal(200);
      expect(await db.rows()).to.have.length(1);
    });

    it('lets shouldCommit decide, and rolls back when it cannot', async () => {
      const url = await serve((_req, res) => void res.status(404).json({}), { shouldCommit: () => true });
      expect((await ask(url)).status).to.equal(404);
      expect(await db.rows()).to.have.length(1);
      await db.empty();
      await server?.close();

      const undecided = await serve((_req, res) => void res.json({}), {
        shouldCommit: (() => Promise.resolve(true)) as unknown as () => boolean,
      });
      const answer = await ask(undecided);
      expect(answer.status).to.equal(500);
      expect(answer.text).to.include('shouldCommit must be a function that answers at once, got a promise');
      await expectNothingStored();
    });
  });
}

describe('a process that dies in the handler', () => {
  it('leaves nothing in the database', async () => {
    const db = await createDatabase();
    try {
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', require.resolve('./fixtures/dying-server.ts'), db.url],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const answer = await ask(line.toString().trim()).catch((error: unknown) => error);
      expect(answer).to.have.property('code', 'ECONNRESET');
      await once(child, 'exit');
      await eventually(async () => {
        const others = await db
          .knex('pg_stat_activity')
          .whereRaw('datname = current_database() AND pid <> pg_backend_pid()');
        expect(others).to.deep.equal([]);
      });
      expect(await db.rows()).to.deep.equal([]);
      expect(await db.knex('orders')).to.deep.equal([]);
    } finally {
      await db.close();
    }
  });
});

describe('the middleware in other stacks', () => {
  let db: TestDatabase;
  let outbox: Outbox;
  let server: TestServer | undefined;

  before(async () => {
    db = await createDatabase();
    outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
  });
  afterEach(async () => {
    await server?.close();
    server = undefined;
    await db.empty();
  });
  after(async () => {
    await outbox.close();
    await db.close();
  });

  it('works in Connect', async () => {
    const app = connectStack();
    app.use(outbox.middleware());
    app.use((req: IncomingMessage, res: ServerResponse) => {
      const { celery } = req as unknown as Request;
      void celery.sendTask('from.connect').then(() => res.end('done'));
    });
    server = await listen(app);
    expect((await ask(server.url)).text).to.equal('done');
    expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(['from.connect']);
  });

  it('refuses HTTP/2, which it cannot hold', () => {
    let refused: unknown;
    outbox.middleware()({} as IncomingMessage, {} as ServerResponse, (error) => {
      refused = error;
    });
    expect(refused).to.have.property('message').that.includes('must be given an http.ServerResponse');
  });

  it('works with nothing but (req, res, next), also when next throws', async () => {
    const middleware = outbox.middleware();
    server = await listen((req: IncomingMessage, res: ServerResponse) => {
      middleware(req, res, (error) => {
        if (error !== undefined) res.writeHead(500).end((error as Error).message);
        else if (req.url === '/throw') throw new Error('thrown by next');
        else if (req.url === '/throw-late') {
          void outbox.celery.sendTask('never');
          res.end('fine');
          throw new Error('thrown after the answer');
        } else void outbox.celery.sendTask('plain').then(() => res.writeHead(202).end());
      });
    });
    expect((await ask(server.url)).status).to.equal(202);
    const thrown = await ask(`${server.url}/throw`);
    expect([thrown.status, thrown.text]).to.deep.equal([500, 'thrown by next']);
    const late = await ask(`${server.url}/throw-late`);
    expect([late.status, late.text]).to.deep.equal([500, 'thrown after the answer']);
    expect(await db.rows()).to.have.length(1);
    expect(db.inUse()).to.equal(0);
  });
});
