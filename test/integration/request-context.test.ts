import { EventEmitter } from 'node:events';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import type { Express, Request, Response } from 'express';
import { createLogger, transports } from 'winston';
import { PassThrough } from 'node:stream';
import {
  createOutbox,
  currentLogContext,
  logContextFormat,
  type Outbox,
  type OutboxOptions,
  withLogContext,
} from '../../lib';
import { createDatabase, type TestDatabase } from '../support/database';
import { EXPRESS_VERSIONS, listen, type TestServer } from '../support/express-app';
import { ask } from '../support/http-client';
import { recordingLogger } from '../support/log';

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

for (const [version, express] of EXPRESS_VERSIONS) {
  describe(`the context of a request (${version})`, () => {
    let db: TestDatabase;
    let outbox: Outbox;
    let server: TestServer;
    const logger = recordingLogger();

    before(async () => {
      db = await createDatabase();
    });
    afterEach(async () => {
      await server.close();
      await outbox.close();
      await db.empty();
    });
    after(() => db.close());

    async function serve(
      handler: (req: Request, res: Response) => unknown,
      options: Partial<OutboxOptions> = {},
    ): Promise<string> {
      outbox = createOutbox({ knex: db.knex, logger, ...options });
      const app: Express = express();
      app.use(
        outbox.middleware({ context: (req) => ({ requestId: req.headers['x-request-id'], secret: 's' }) }),
      );
      app.post('/', (req, res, next) => {
        Promise.resolve(handler(req, res)).catch(next);
      });
      server = await listen(app);
      return server.url;
    }

    const contextOf = async (): Promise<unknown[]> =>
      (await db.rows()).map((row) => JSON.parse(row.log_context ?? 'null') as unknown);

    it('never mixes two requests: neither their context nor their transaction', async () => {
      const url = await serve(async (req, res) => {
        const id = String(req.headers['x-request-id']);
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
        await outbox.celery.sendTask('a', [id]);
        if (Number(id) % 2 === 0) throw new Error('even ones fail');
        await outbox.celery.sendTask('b', [id, currentLogContext()['requestId']]);
        res.end();
      });
      const ids = Array.from({ length: 60 }, (_, index) => String(index));
      await Promise.all(ids.map((id) => ask(url, { headers: { 'X-Request-Id': id } })));
      const rows = await db.rows();
      expect(rows).to.have.length(60);
      for (const row of rows) {
        const [id, seen = id] = JSON.parse(row.args) as string[];
        expect(Number(id) % 2).to.equal(1);
        expect(seen).to.equal(id);
        expect(JSON.parse(row.log_context ?? '')).to.include({ requestId: id });
      }
    });

    it('survives promises, timers, event emitters, and the events of the request itself', async () => {
      const url = await serve(async (req, res) => {
        const emitter = new EventEmitter();
        const hops: Promise<unknown>[] = [
          Promise.resolve().then(() => outbox.celery.sendTask('promise')),
          new Promise((resolve) => setTimeout(() => resolve(outbox.celery.sendTask('timer')), 1)),
          new Promise((resolve) => setImmediate(() => resolve(outbox.celery.sendTask('immediate')))),
          new Promise((resolve) => emitter.once('go', () => resolve(outbox.celery.sendTask('emitter')))),
          new Promise((resolve) =>
            req.on('end', () => resolve(outbox.celery.sendTask('request end'))).resume(),
          ),
          req.trx.raw('SELECT 1').then(() => outbox.celery.sendTask('knex')),
        ];
        setTimeout(() => emitter.emit('go'), 1);
        await Promise.all(hops);
        res.end();
      });
      const answer = await ask(url, {
        headers: { 'X-Request-Id': '7', 'Content-Length': '4' },
        body: 'body',
      });
      expect(answer.status).to.equal(200);
      expect(
        logger.lines.filter((line) => line.message === 'celery_outbox_not_in_transaction'),
      ).to.deep.equal([]);
      expect((await db.rows()).map((row) => row.task_name)).to.have.members([
        'promise',
        'timer',
        'immediate',
        'emitter',
        'request end',
        'knex',
      ]);
      expect(
        new Set((await contextOf()).map((fields) => (fields as { requestId: string }).requestId)),
      ).to.deep.equal(new Set(['7']));
    });

    it('stores only the allowed keys, nested contexts included', async () => {
      const url = await serve(
        async (req, res) => {
          await withLogContext({ userId: 42, password: 'p' }, () => req.celery.sendTask('a'));
          res.end();
        },
        { logContext: { keys: ['requestId', 'userId'] } },
      );
      await ask(url, { headers: { 'X-Request-Id': '7' } });
      expect(await contextOf()).to.deep.equal([{ requestId: '7', userId: 42 }]);
    });

    it('leaves out what cannot be stored, and never fails because of it', async () => {
      const cyclic: Record<string, unknown> = {};
      cyclic['self'] = cyclic;
      const url = await serve(
        async (req, res) => {
          await withLogContext({ cyclic, ok: 1n }, () => req.celery.sendTask('a'));
          res.end();
        },
        {
          trace: () => {
            throw new Error('no trace today');
          },
        },
      );
      expect((await ask(url)).status).to.equal(200);
      const [row] = await db.rows();
      expect(row?.log_context).to.equal('{"secret":"s","ok":1}');
      expect(row?.trace_headers).to.equal(null);
    });

    it("stores the incoming request's trace, unless told not to", async () => {
      const send = async (req: Request, res: Response): Promise<void> => {
        await req.celery.sendTask('a');
        res.end();
      };
      const headers = { traceparent: TRACEPARENT, 'sentry-trace': 'x-y-1', baggage: 'k=v', 'x-other': 'no' };
      await ask(await serve(send), { headers });
      expect(JSON.parse((await db.rows())[0]?.trace_headers ?? '')).to.deep.equal({
        traceparent: TRACEPARENT,
        'sentry-trace': 'x-y-1',
        baggage: 'k=v',
      });
      await server.close();
      await ask(await serve(send, { trace: false }), { headers });
      expect((await db.rows())[1]?.trace_headers).to.equal(null);
      await server.close();
      await ask(await serve(send, { trace: () => ({ mine: 'yes' }) }), { headers });
      expect((await db.rows())[2]?.trace_headers).to.equal('{"mine":"yes"}');
    });

    it('falls back to the incoming trace when OpenTelemetry fails', async () => {
      const fails = (): never => {
        throw new Error('a broken propagator');
      };
      propagation.setGlobalPropagator({ inject: fails, extract: (active) => active, fields: () => [] });
      try {
        const url = await serve(async (req, res) => {
          await req.celery.sendTask('a');
          res.end();
        });
        expect((await ask(url, { headers: { traceparent: TRACEPARENT } })).status).to.equal(200);
        expect((await db.rows())[0]?.trace_headers).to.equal(JSON.stringify({ traceparent: TRACEPARENT }));
        expect(logger.lines.at(-1)).to.have.property('message', 'celery_outbox_context_failed');
      } finally {
        propagation.disable();
      }
    });

    it('stores the active span of OpenTelemetry instead, with its baggage', async () => {
      const provider = new BasicTracerProvider();
      trace.setGlobalTracerProvider(provider);
      context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
      propagation.setGlobalPropagator(
        new CompositePropagator({
          propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
        }),
      );
      try {
        let spanId = '';
        const url = await serve(async (_req, res) => {
          const baggage = propagation.createBaggage({ tenant: { value: 'acme' } });
          const span = trace.getTracer('test').startSpan('handler');
          spanId = span.spanContext().spanId;
          const active = propagation.setBaggage(trace.setSpan(context.active(), span), baggage);
          await context.with(active, () => outbox.celery.sendTask('a'));
          span.end();
          res.end();
        });
        await ask(url, { headers: { traceparent: TRACEPARENT } });
        const stored = JSON.parse((await db.rows())[0]?.trace_headers ?? '') as Record<string, string>;
        expect(stored['traceparent']).to.include(spanId).and.not.equal(TRACEPARENT);
        expect(stored['baggage']).to.equal('tenant=acme');
      } finally {
        trace.disable();
        context.disable();
        propagation.disable();
      }
    });
  });
}

describe('logContextFormat', () => {
  it('adds the log context to lines of winston; fields of the line win', () => {
    const lines: string[] = [];
    const stream = new PassThrough().on('data', (chunk: Buffer) => lines.push(chunk.toString()));
    const logger = createLogger({
      format: logContextFormat(),
      transports: [new transports.Stream({ stream })],
    });
    logger.format = logContextFormat();
    const seen: unknown[] = [];
    logger.on('data', (info: unknown) => seen.push(info));
    withLogContext({ requestId: '7', level: 'never' }, () => {
      withLogContext({ userId: 42 }, () => logger.info('hello', { userId: 43 }));
    });
    logger.info('outside');
    expect(seen[0]).to.include({ message: 'hello', level: 'info', requestId: '7', userId: 43 });
    expect(seen[1]).not.to.have.property('requestId');
    logger.close();
  });
});
