import { createReadStream } from 'node:fs';
import { request } from 'node:http';
import { expect } from 'chai';
import type { ErrorRequestHandler, Request, Response } from 'express';
import { createOutbox, type MiddlewareOptions, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { createGate, type Gate } from '../support/gate';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`a handler whose answer was discarded (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer;
    let apologise: Gate;
    let asked: Gate;

    before(async () => {
      db = await createDatabase();
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
    });
    beforeEach(() => {
      apologise = createGate();
      asked = createGate();
    });
    afterEach(async () => {
      await server.close();
      expect(db.inUse()).to.equal(0);
      expect(await db.knex('orders')).to.deep.equal([]);
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    // An error handler that has set its status, and then thinks until the test lets it go on.
    const slowApology: ErrorRequestHandler = (error: { code: string }, _req, res, _next) => {
      res.status(503).set('X-Apology', 'yes');
      asked.open();
      void apologise.opened.then(() => res.json({ code: error.code }));
    };

    async function serve(
      handler: (req: Request, res: Response) => Promise<void>,
      options: MiddlewareOptions = {},
      errorHandler: ErrorRequestHandler | undefined = slowApology,
    ): Promise<string> {
      const app = express();
      app.use(outbox.middleware(options));
      app.post('/', (req, res, next) => {
        handler(req, res).catch(next);
      });
      app.use(errorHandler);
      server = await listen(app);
      return server.url;
    }

    it('cannot answer while the error handler is still thinking', async () => {
      const answered = createGate();
      const url = await serve(
        async (req, res) => {
          await req.trx('orders').insert({ note: null });
          await asked.opened;
          res.status(201).set('X-Handler', 'no').json({ ok: true });
          answered.open();
        },
        { timeoutMs: 50 },
      );
      const answer = ask(url);
      await answered.opened;
      apologise.open();
      expect((await answer).status).to.equal(503);
      expect(JSON.parse((await answer).text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_TIMEOUT' });
      expect((await answer).headers['x-apology']).to.equal('yes');
      expect((await answer).headers).not.to.have.property('x-handler');
    });

    it('cannot write on after its COMMIT failed', async () => {
      let timer: NodeJS.Timeout | undefined;
      let ticks = 0;
      const url = await serve(async (req, res) => {
        await req.trx('orders').insert({ parent_id: 404 });
        timer = setInterval(() => {
          ticks += 1;
          res.write('tick');
        }, 1);
      });
      const answer = ask(url);
      await asked.opened;
      const before = ticks;
      await eventually(() => {
        expect(ticks).to.be.above(before + 3);
      });
      apologise.open();
      expect((await answer).status).to.equal(503);
      expect(JSON.parse((await answer).text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_COMMIT_FAILED' });
      clearInterval(timer);
    });

    it("cannot answer before Express's own handler, which waits for the end of the request", async () => {
      const answered = createGate();
      const pass: ErrorRequestHandler = (error, _req, _res, next) => {
        asked.open();
        next(error);
      };
      const url = await serve(
        async (req, res) => {
          await req.trx('orders').insert({ note: null });
          await asked.opened;
          await new Promise((resolve) => setImmediate(resolve));
          res.status(201).json({ ok: true });
          answered.open();
        },
        { timeoutMs: 50 },
        pass,
      );
      const status = new Promise<number>((resolve, reject) => {
        const req = request(
          url,
          { method: 'POST', agent: false, headers: { 'Content-Length': 2 } },
          (res) => {
            res.resume().on('end', () => {
              resolve(res.statusCode ?? 0);
            });
          },
        );
        req.on('error', reject);
        req.write('a');
        void answered.opened.then(() => req.end('b'));
      });
      expect(await status).to.equal(503);
    });

    it('has its piped file closed', async () => {
      const file = createReadStream(__filename);
      const url = await serve(async (req, res) => {
        await req.trx('orders').insert({ parent_id: 404 });
        file.pipe(res);
      });
      apologise.open();
      expect((await ask(url)).status).to.equal(503);
      await eventually(() => {
        expect(file.closed).to.equal(true);
      });
    });

    it('keeps the request itself alive when that was piped back', async () => {
      const url = await serve(async (req, res) => {
        await req.trx('orders').insert({ parent_id: 404 });
        req.pipe(res);
      });
      apologise.open();
      expect((await ask(url, { body: 'echo' })).status).to.equal(503);
    });
  });
}
