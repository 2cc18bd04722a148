import { AsyncLocalStorage } from 'node:async_hooks';
import { expect } from 'chai';
import type { Request, Response } from 'express';
import { createOutbox, createOutboxContext, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`where the middleware is mounted (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer | undefined;
    const logger = recordingLogger();

    before(async () => {
      db = await createDatabase();
      outbox = createOutbox({ knex: db.knex, logger });
    });
    afterEach(async () => {
      await server?.close();
      expect(db.inUse()).to.equal(0);
      logger.lines.length = 0;
      await db.empty();
    });
    after(async () => {
      await outbox.close();
      await db.close();
    });

    const taskNames = async (): Promise<string[]> => (await db.rows()).map((row) => row.task_name);

    it('opens one transaction when it is mounted twice', async () => {
      let statements: string[] = [];
      const record = ({ sql }: { sql: string }): void => void statements.push(sql);
      const app = express();
      const router = express.Router();
      router.use(outbox.middleware());
      router.post('/orders', (req: Request, res: Response, next) => {
        req.celery.sendTask('nested').then(() => res.end(), next);
      });
      app.use(outbox.middleware());
      app.use('/api', router);
      server = await listen(app);
      db.knex.on('query', record);
      statements = [];
      expect((await ask(`${server.url}/api/orders`)).status).to.equal(200);
      db.knex.removeListener('query', record);
      expect(statements.filter((sql) => /BEGIN|COMMIT/.test(sql))).to.deep.equal(['BEGIN;', 'COMMIT;']);
      expect(await taskNames()).to.deep.equal(['nested']);
    });

    it('leaves requests that `when` does not choose without a transaction, and with a client', async () => {
      const app = express();
      const seen: unknown[] = [];
      app.use(outbox.middleware());
      app.all('/', (req, res, next) => {
        seen.push([req.method, (req.trx as unknown) === undefined]);
        req.celery.sendTask(`by.${req.method}`).then(() => res.end(), next);
      });
      server = await listen(app);
      for (const method of ['GET', 'POST', 'HEAD', 'PUT', 'OPTIONS', 'DELETE'])
        await ask(server.url, { method });
      expect(seen).to.deep.equal([
        ['GET', true],
        ['POST', false],
        ['HEAD', true],
        ['PUT', false],
        ['OPTIONS', true],
        ['DELETE', false],
      ]);
      expect(await taskNames()).to.have.length(6);
      const warned = logger.lines.filter((line) => line.message === 'celery_outbox_not_in_transaction');
      expect(warned.map((line) => line.fields['task_names'])).to.deep.equal([
        ['by.GET'],
        ['by.HEAD'],
        ['by.OPTIONS'],
      ]);
    });

    it('lets an inner mount choose what the outer one did not', async () => {
      const app = express();
      app.use(outbox.middleware({ when: () => false }));
      app.use('/inner', outbox.middleware({ when: (req: Request) => req.method === 'GET' }));
      app.get('/inner', (req, res, next) => {
        req.celery.sendTask('inner').then(() => res.status(500).end(), next);
      });
      server = await listen(app);
      expect((await ask(`${server.url}/inner`, { method: 'GET' })).status).to.equal(500);
      expect(await taskNames()).to.deep.equal([]);
    });

    it('passes on what `when` throws, and goes on without what `context` throws', async () => {
      const app = express();
      app.use(
        '/when',
        outbox.middleware({
          when: () => {
            throw new Error('no idea');
          },
        }),
      );
      app.use(
        '/context',
        outbox.middleware({
          context: () => {
            throw new Error('no context');
          },
        }),
      );
      app.post('/context', (_req, res) => void res.end('fine'));
      server = await listen(app);
      expect((await ask(`${server.url}/when`)).status).to.equal(500);
      expect((await ask(`${server.url}/context`)).text).to.equal('fine');
      expect(logger.lines.map((line) => line.message)).to.deep.equal(['celery_outbox_context_failed']);
    });

    it('rolls back after an exception that passes six nested routers on its way out', async () => {
      const app = express();
      let router = express.Router();
      router.post('/', (req: Request, res: Response, next) => {
        const handle = async (): Promise<void> => {
          await req.celery.sendTask('nested');
          res.json({ ok: true });
          throw new Error('after the answer');
        };
        handle().catch(next);
      });
      for (let depth = 1; depth < 6; depth += 1) router = express.Router().use(router);
      app.use(outbox.middleware());
      app.use(router);
      server = await listen(app);
      expect(await ask(server.url).catch((error: unknown) => error)).to.have.property('code', 'ECONNRESET');
      expect(await taskNames()).to.deep.equal([]);
    });

    it('leaves the context that others mount behind it alone, in events, too', async () => {
      const app = express();
      const others = new AsyncLocalStorage<string>();
      const seen: unknown[] = [];
      app.use(outbox.middleware());
      app.use((_req, _res, next) => {
        others.run('theirs', next);
      });
      app.post('/', (_req, res) => {
        res.on('finish', () => seen.push(others.getStore()));
        res.on('custom', () => seen.push(others.getStore()));
        res.emit('custom');
        res.end();
      });
      server = await listen(app);
      await ask(server.url);
      expect(seen[0]).to.equal('theirs');
      expect(seen).to.have.length(2);
    });

    it('refuses callbacks that answer with a promise, and never dies of one', async () => {
      const fails = (): never => Promise.reject(new Error('async')) as never;
      const app = express();
      app.use('/when', outbox.middleware({ when: fails }));
      app.use('/context', outbox.middleware({ context: fails }));
      app.post('/context', (_req, res) => void res.end('fine'));
      server = await listen(app);
      expect((await ask(`${server.url}/when`)).status).to.equal(500);
      expect((await ask(`${server.url}/context`)).text).to.equal('fine');
      expect(logger.lines.map((line) => line.message)).to.include('celery_outbox_context_failed');
    });

    it('gives consumers of express-async-context their transaction and client', async () => {
      const app = express();
      const Context = createOutboxContext<Request, Response>();
      app.use(outbox.middleware());
      app.use(Context.provider);
      app.post(
        '/orders',
        Context.consumer((_req, res) => async ({ trx, celery }) => {
          await trx('orders').insert({ note: 'context' });
          await celery.sendTask('from.context');
          res.status(201).end();
        }),
      );
      app.post(
        '/fails',
        Context.consumer(() => async ({ celery }) => {
          await celery.sendTask('never');
          throw new Error('rejected in a thunk');
        }),
      );
      app.post(
        '/throws',
        Context.consumer(() => () => {
          throw new Error('thrown in a thunk');
        }),
      );
      app.use(
        Context.errorConsumer((error, _req, res) => ({ trx }) => {
          res.status(500).end(`${error.message} in ${typeof trx}`);
        }),
      );
      server = await listen(app);
      expect((await ask(`${server.url}/orders`)).status).to.equal(201);
      expect((await ask(`${server.url}/fails`)).text).to.equal('rejected in a thunk in function');
      expect((await ask(`${server.url}/throws`)).text).to.equal('thrown in a thunk in function');
      expect(await taskNames()).to.deep.equal(['from.context']);
      expect(await db.knex('orders').pluck('note')).to.deep.equal(['context']);
    });
  });
}
