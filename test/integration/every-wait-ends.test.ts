import { expect } from 'chai';
import type { Request, Response } from 'express';
import express from 'express';
import createKnex from 'knex';
import { createOutbox, type MiddlewareOptions, type Outbox } from '../../lib';
import { beginTransaction } from '../../lib/store/proven-transaction';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { listen, type TestServer } from '../support/express-app';
import { createFreezingProxy } from '../support/freezing-proxy';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';
import { rejection } from '../support/rejection';

const log = { warn: () => undefined, error: () => undefined };

describe('every wait ends', () => {
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
    await eventually(() => {
      expect(db.inUse()).to.equal(0);
    });
    await db.empty();
  });
  after(async () => {
    await outbox.close();
    await db.close();
  });

  async function serve(
    handler: (req: Request, res: Response) => unknown,
    options?: MiddlewareOptions,
  ): Promise<string> {
    const app = express();
    app.use(outbox.middleware(options));
    app.post('/', handler);
    server = await listen(app);
    return server.url;
  }

  for (const [what, options] of [
    ['an idempotency key', { idempotencyKey: 'k' }],
    ['an ordering key', { orderingKey: 'k' }],
  ] as const) {
    it(`for ${what} that another transaction holds, when the handler did not await its send`, async () => {
      const url = await serve(
        (req, res) => {
          void req.celery.sendTask('blocked', [], {}, options);
          res.json({});
        },
        { timeoutMs: 300 },
      );
      const blocker = await db.knex.transaction();
      try {
        await outbox.celery.sendTask('blocked', [], {}, { ...options, trx: blocker });
        expect((await ask(url)).status).to.equal(503);
        expect(db.inUse()).to.equal(1);
        const abort = new AbortController();
        const gone = ask(url, { signal: abort.signal }).catch((error: unknown) => error);
        await eventually(() => {
          expect(db.inUse()).to.equal(2);
        });
        abort.abort();
        await gone;
        await eventually(() => {
          expect(db.inUse()).to.equal(1);
        });
      } finally {
        await blocker.rollback();
      }
    });
  }

  it('for a BEGIN that is never answered', async () => {
    const proxy = await createFreezingProxy(db.url);
    const knex = createKnex({ client: 'pg', connection: proxy.url, pool: { min: 0, max: 1 }, log });
    const frozen = createOutbox({ knex, logger: recordingLogger(), commitTimeoutMs: 100 });
    try {
      await knex.raw('SELECT 1');
      proxy.freeze();
      const error = await rejection(
        'ERR_CELERY_OUTBOX_BEGIN_FAILED',
        frozen.transaction(() => Promise.resolve()),
      );
      expect(error.message).to.include('no answer to BEGIN within 100 ms');
      expect((knex.client as { pool: { numUsed(): number } }).pool.numUsed()).to.equal(0);
    } finally {
      await proxy.close();
      await knex.destroy();
    }
  });

  it('for a statement and a ROLLBACK that are never answered', async () => {
    const proxy = await createFreezingProxy(db.url);
    const knex = createKnex({ client: 'pg', connection: proxy.url, pool: { min: 0, max: 1 }, log });
    try {
      const transaction = await beginTransaction(knex, 1_000);
      proxy.freeze();
      const lost = transaction
        .trx('orders')
        .insert({ note: 'lost' })
        .catch((error: unknown) => error);
      await new Promise((resolve) => setImmediate(resolve));
      await transaction.rollback();
      expect(await lost).to.be.instanceOf(Error);
      expect((knex.client as { pool: { numUsed(): number } }).pool.numUsed()).to.equal(0);
    } finally {
      await proxy.close();
      await knex.destroy();
    }
  });

  it('and no cancel hits the statement of whoever gets the connection next', async () => {
    const knex = createKnex({ client: 'pg', connection: db.url, pool: { min: 0, max: 1 }, log });
    try {
      // Statements that end by themselves just around the time when a rollback loses patience with them.
      for (let tenths = 950; tenths <= 1_150; tenths += 10) {
        const transaction = await beginTransaction(knex, 1_000);
        const slow = transaction.trx.raw('SELECT pg_sleep(?)', [tenths / 10_000]).catch(() => undefined);
        await new Promise((resolve) => setImmediate(resolve));
        const rolledBack = transaction.rollback();
        await knex.raw('SELECT pg_sleep(0.01)');
        await Promise.all([slow, rolledBack]);
      }
    } finally {
      await knex.destroy();
    }
  });
});
