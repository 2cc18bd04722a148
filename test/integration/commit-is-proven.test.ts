import { expect } from 'chai';
import type { ErrorRequestHandler, Express } from 'express';
import { createOutbox, type CeleryOutboxError, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`COMMIT is proven (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer;
    let errors: CeleryOutboxError[];

    before(async () => {
      db = await createDatabase();
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger(), commitTimeoutMs: 500 });
      const app = express();
      app.use((_req, res, next) => {
        res.setHeader('X-Before', 'kept');
        next();
      });
      app.use(outbox.middleware());
      routes(app, db);
      const report: ErrorRequestHandler = (error: CeleryOutboxError, _req, res, _next) => {
        errors.push(error);
        res.status(error.statusCode).json({ code: error.code });
      };
      app.use(report);
      server = await listen(app);
    });
    beforeEach(async () => {
      errors = [];
      await db.empty();
    });
    after(async () => {
      await server.close();
      await outbox.close();
      await db.close();
    });

    async function expectNothingStored(): Promise<void> {
      expect(await db.rows()).to.deep.equal([]);
      expect(await db.knex('orders')).to.deep.equal([]);
      expect(db.inUse()).to.equal(0);
    }

    it('answers success after a commit, with row and task stored', async () => {
      const answer = await ask(`${server.url}/orders`);
      expect(answer.status).to.equal(201);
      expect(JSON.parse(answer.text)).to.deep.equal({ id: 1 });
      expect(answer.headers['x-handler']).to.equal('said so');
      expect(await db.rows()).to.have.length(1);
      expect(await db.knex('orders')).to.have.length(1);
      expect(db.inUse()).to.equal(0);
    });

    it('answers 500 with nothing of the handler when a deferred constraint fails at COMMIT', async () => {
      const answer = await ask(`${server.url}/orders?parent=404`);
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_COMMIT_FAILED' });
      expect(answer.headers).not.to.have.any.keys('x-handler', 'location');
      expect(answer.headers['x-before']).to.equal('kept');
      expect(errors[0]?.message).to.match(/foreign key constraint .*SQLSTATE 23503/);
      await expectNothingStored();
    });

    it('answers 500 when the backend is terminated during COMMIT', async () => {
      await db.knex.raw(`
        CREATE OR REPLACE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER die AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION die()`);
      try {
        const answer = await ask(`${server.url}/orders`);
        expect(answer.status).to.equal(500);
        expect(JSON.parse(answer.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_COMMIT_UNKNOWN' });
        expect(answer.headers).not.to.have.any.keys('x-handler', 'location');
      } finally {
        await db.knex.raw('DROP TRIGGER die ON orders');
      }
      await expectNothingStored();
    });

    it('answers 500, and frees the connection, when COMMIT is never answered', async () => {
      await db.knex.raw(`
        CREATE OR REPLACE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION hang()`);
      const answer = await ask(`${server.url}/orders`);
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_COMMIT_UNKNOWN' });
      expect(errors[0]?.message).to.include('no answer to COMMIT within 500 ms');
      expect(db.inUse()).to.equal(0);
      // The backend goes on without us; it must be gone before the next test empties the tables.
      await db.knex.raw(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'",
      );
      await db.knex.raw('DROP TRIGGER hang ON orders');
    });

    it('answers 500 and names the cause when the handler swallowed an SQL error', async () => {
      const answer = await ask(`${server.url}/swallow`);
      expect(answer.status).to.equal(500);
      expect(JSON.parse(answer.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED' });
      expect(errors[0]?.message).to.match(/division by zero \(SQLSTATE 22012\)/);
      expect(errors[0]?.cause).to.have.property('code', '22012');
      await expectNothingStored();
    });

    it('commits when the SQL error was undone by a savepoint', async () => {
      const answer = await ask(`${server.url}/savepoint`);
      expect(answer.status).to.equal(200);
      expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(['outer']);
    });

    it('rolls back a status of 400 and above, and lets the answer pass', async () => {
      const answer = await ask(`${server.url}/refuse`);
      expect(answer.status).to.equal(422);
      expect(answer.text).to.equal('no');
      await expectNothingStored();
    });

    it('answers 503 when no transaction can be opened', async () => {
      const { knex } = db;
      const held = await Promise.all(Array.from({ length: 10 }, () => knex.transaction()));
      const pool = (knex.client as { pool: { acquireTimeoutMillis: number } }).pool;
      const normal = pool.acquireTimeoutMillis;
      pool.acquireTimeoutMillis = 50;
      try {
        const answer = await ask(`${server.url}/orders`);
        expect(answer.status).to.equal(503);
        expect(JSON.parse(answer.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_BEGIN_FAILED' });
      } finally {
        pool.acquireTimeoutMillis = normal;
        await Promise.all(held.map((trx) => trx.rollback()));
      }
      await expectNothingStored();
    });

    it('accepts a handler that commits by itself, and notices when that COMMIT was a ROLLBACK', async () => {
      expect((await ask(`${server.url}/self-commit`)).status).to.equal(200);
      expect(await db.rows()).to.have.length(1);
      const aborted = await ask(`${server.url}/self-commit?spoil=1`);
      expect(aborted.status).to.equal(500);
      expect(JSON.parse(aborted.text)).to.deep.equal({ code: 'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED' });
      expect(await db.rows()).to.have.length(1);
      expect(db.inUse()).to.equal(0);
    });

    it('accepts a dry run that rolls back by itself, but not if tasks were sent in it', async () => {
      expect((await ask(`${server.url}/dry-run`)).status).to.equal(200);
      const lossy = await ask(`${server.url}/dry-run?send=1`);
      expect(lossy.status).to.equal(500);
      expect(errors[0]?.message).to.include('trx.rollback() was called after tasks had been sent');
      await expectNothingStored();
    });
  });
}

function routes(app: Express, _db: TestDatabase): void {
  app.post('/orders', async (req, res, next) => {
    try {
      const parentId = req.query['parent'] === undefined ? null : Number(req.query['parent']);
      const [order] = await req
        .trx('orders')
        .insert({ parent_id: parentId })
        .returning<{ id: number }[]>('id');
      await req.celery.sendTask('orders.process', [order?.id]);
      res.status(201).location('/orders/1').set('X-Handler', 'said so').json(order);
    } catch (error) {
      next(error);
    }
  });
  app.post('/swallow', async (req, res) => {
    await req.celery.sendTask('orders.process', [1]);
    await req.trx.raw('SELECT 1 / 0').catch(() => undefined);
    res.json({ ok: true });
  });
  app.post('/savepoint', async (req, res) => {
    await req.trx
      .transaction(async (inner) => {
        await req.celery.sendTask('inner');
        await inner.raw('SELECT 1 / 0');
      })
      .catch(() => undefined);
    await req.celery.sendTask('outer');
    res.json({ ok: true });
  });
  app.post('/refuse', async (req, res) => {
    await req.trx('orders').insert({ note: 'x' });
    await req.celery.sendTask('orders.process', [1]);
    res.status(422).send('no');
  });
  app.post('/self-commit', async (req, res) => {
    await req.celery.sendTask('orders.process', [1]);
    if (req.query['spoil'] !== undefined) await req.trx.raw('SELECT 1 / 0').catch(() => undefined);
    await req.trx.commit();
    res.json({ ok: true });
  });
  app.post('/dry-run', async (req, res) => {
    await req.trx('orders').insert({ note: 'x' });
    if (req.query['send'] !== undefined) await req.celery.sendTask('orders.process', [1]);
    await req.trx.rollback();
    res.json({ ok: true });
  });
}
