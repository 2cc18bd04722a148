import { once } from 'node:events';
import { expect } from 'chai';
import type { Express, Request, Response } from 'express';
import { createOutbox, type Outbox } from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';
import { createRandom } from '../support/random';

const REQUESTS = 2_000;
const CONNECTIONS = 50;

// What the handler does after it has stored its order and its task. One that does well is as frequent as all of
// these together.
const FAULTS: Readonly<Record<string, (req: Request, res: Response) => unknown>> = {
  throws: () => {
    throw new Error('boom');
  },
  answersThenThrows: (_req, res) => {
    res.json({ ok: true });
    throw new Error('boom');
  },
  answersTwice: (_req, res) => {
    res.json({ ok: true });
    res.json({ ok: false });
  },
  neverAnswers: () => undefined,
  refuses: (_req, res) => res.status(409).end(),
  swallowsSqlError: async (req, res) => {
    await req.trx.raw('SELECT 1 / 0').catch(() => undefined);
    res.json({ ok: true });
  },
  breaksDeferredConstraint: async (req, res) => {
    await req.trx('orders').insert({ parent_id: 404 });
    res.json({ ok: true });
  },
  losesItsBackend: async (req, res) => {
    await req.trx.raw('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
    res.json({ ok: true });
  },
  sendsGarbageUnawaited: (req, res) => {
    void req.celery.sendTask('garbage', [() => undefined]);
    res.json({ ok: true });
  },
  clientGoes: async (_req, res) => {
    await once(res, 'close');
    res.json({ ok: true });
  },
  destroysResponse: (_req, res) => res.destroy(),
  rollsBackItself: async (req, res) => {
    await req.trx.rollback();
    res.json({ ok: true });
  },
};
const KINDS = Object.keys(FAULTS);
const SEED = 20_261_118;

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`${String(REQUESTS)} requests with random faults on ${String(CONNECTIONS)} connections (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer;

    before(async () => {
      db = await createDatabase({ min: 0, max: 25 });
      outbox = createOutbox({ knex: db.knex, logger: recordingLogger() });
      server = await listen(stormyApp(express(), outbox));
    });
    after(async () => {
      await server.close();
      await outbox.close();
      await db.close();
    });

    it(`stores exactly what was answered with success (seed ${String(SEED)})`, async () => {
      const random = createRandom(SEED);
      const succeeded: string[] = [];
      let sent = 0;
      const client = async (): Promise<void> => {
        while (sent < REQUESTS) {
          const id = String((sent += 1));
          const fault = random() < 0.5 ? 'none' : KINDS[Math.floor(random() * KINDS.length)]!;
          const signal = fault === 'clientGoes' ? { signal: AbortSignal.timeout(10) } : {};
          const answer = await ask(`${server.url}/${fault}/${id}`, signal).catch(() => null);
          if (answer !== null && answer.status < 300) succeeded.push(id);
        }
      };
      await Promise.all(Array.from({ length: CONNECTIONS }, client));
      await eventually(() => {
        expect(db.inUse()).to.equal(0);
      });
      const tasks = (await db.rows()).map((row) => (JSON.parse(row.args) as [string])[0]);
      expect(tasks.toSorted()).to.deep.equal(succeeded.toSorted());
      expect((await db.knex('orders').pluck('note')).toSorted()).to.deep.equal(succeeded.toSorted());
      expect(succeeded.length).to.be.within(REQUESTS / 3, REQUESTS * (2 / 3));
    });
  });
}

function stormyApp(app: Express, outbox: Outbox): Express {
  app.use(outbox.middleware({ timeoutMs: 300 }));
  app.post('/:fault/:id', (req, res, next) => {
    const { fault, id } = req.params;
    const handle = async (): Promise<void> => {
      await req.trx('orders').insert({ note: id });
      await req.celery.sendTask('orders.process', [id]);
      if (fault === 'none') res.status(201).json({ id });
      else await FAULTS[fault]?.(req, res);
    };
    handle().catch(next);
  });
  return app;
}
