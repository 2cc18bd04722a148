import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import Redis from 'ioredis';
import { type CeleryOptions, createOutbox, type Outbox } from '../../lib';
import { startServices } from '../../services';
import { createCertificate } from '../support/certificate';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { recordingLogger } from '../support/log';
import { openSockets } from '../support/open-sockets';
import { createAdmin, watchTimers } from '../support/redis-broker';
import { redisBinary, startRedisProcess } from '../support/redis-process';
import { rejection } from '../support/rejection';
import { service } from '../support/services';
import { createSilentServer } from '../support/silent-server';
import { createSwitchProxy } from '../support/switch-proxy';

describe('results of tasks', () => {
  let db: TestDatabase;
  let outbox: Outbox;
  let logger: ReturnType<typeof recordingLogger>;

  before(async () => {
    db = await createDatabase();
  });
  after(async () => {
    await db.close();
  });
  afterEach(async () => {
    await outbox.close();
  });

  function open(backend?: string, options: Partial<CeleryOptions> = {}): Outbox {
    logger = recordingLogger();
    const celery = backend === undefined ? undefined : { broker: backend, backend, ...options };
    outbox = createOutbox({ knex: db.knex, logger, ...(celery && { celery }) });
    return outbox;
  }

  describe('in Redis', () => {
    let url: string;
    let redis: Redis;

    before(async () => {
      ({ url } = await service('redis'));
      redis = new Redis(url);
    });
    after(() => {
      redis.disconnect();
    });
    beforeEach(() => {
      open(url);
    });

    /** What a Python worker writes. */
    const finish = (taskId: string, status: string, result: unknown): Promise<unknown> =>
      redis.set(
        `celery-task-meta-${taskId}`,
        JSON.stringify({ status, result, traceback: null, children: [], date_done: null, task_id: taskId }),
      );

    it('are got, also when they come later', async () => {
      const result = await outbox.transaction(() => outbox.celery.sendTask('tasks.add', [1, 2]));
      expect(await result.status()).to.equal(null);
      expect(await result.result()).to.equal(null);
      const getting = result.get(10_000, 5);
      await finish(result.taskId, 'SUCCESS', { sum: 3 });
      expect(await getting).to.deep.equal({ sum: 3 });
      expect(await result.status()).to.equal('SUCCESS');
      expect(await result.result()).to.deep.equal({ sum: 3 });
    });

    it('of a task that failed reject with what it failed with', async () => {
      const result = outbox.celery.asyncResult(randomUUID());
      await finish(result.taskId, 'FAILURE', { exc_type: 'ValueError', exc_message: ['no'] });
      const error = await result.get(10_000, 5).catch((reason: unknown) => reason);
      expect(error).to.include({ message: 'FAILURE', exc_type: 'ValueError' });
    });

    it('that do not come reject in time', async () => {
      const result = outbox.celery.asyncResult(randomUUID());
      expect(await messageOf(result.get(30, 5))).to.equal('TIMEOUT');
    });

    it('need no connection until they are asked for, and none after close()', async () => {
      const others = openSockets(url);
      const result = await outbox.transaction(() => outbox.celery.sendTask('t'));
      expect(openSockets(url)).to.equal(others);
      await result.status();
      expect(openSockets(url)).to.equal(others + 1);
      await outbox.close();
      await rejection('ERR_CELERY_OUTBOX_CLOSED', result.get(1000));
      await rejection('ERR_CELERY_OUTBOX_CLOSED', result.status());
      await eventually(() => {
        expect(openSockets(url)).to.equal(others);
      });
    });

    it('that are waited for when the outbox is closed reject at once, and leave no timer and no connection', async () => {
      const others = openSockets(url);
      const timersEnd = await watchTimers();
      const result = outbox.celery.asyncResult(randomUUID());
      const waiting = [result.get(), result.get(undefined, 600_000), result.get(600_000, 5)];
      const errors = waiting.map((getting) => rejection('ERR_CELERY_OUTBOX_CLOSED', getting));
      await eventually(() => {
        expect(openSockets(url)).to.equal(others + 1);
      });
      await outbox.close();
      await Promise.all(errors);
      expect(logger.lines, 'it is no error').to.deep.equal([]);
      await timersEnd();
      await eventually(() => {
        expect(openSockets(url)).to.equal(others);
      });
    });

    it('that are waited for reject in time, and when the outbox is closed, although the backend is silent', async () => {
      const proxy = await createSwitchProxy(url);
      await outbox.close();
      open(proxy.url);
      try {
        const result = outbox.celery.asyncResult(randomUUID());
        await result.status();
        proxy.hold('replies');
        expect(await messageOf(result.get(50, 5))).to.equal('TIMEOUT');
        const getting = rejection('ERR_CELERY_OUTBOX_CLOSED', result.get());
        const closing = outbox.close();
        await getting;
        proxy.cut();
        await closing;
      } finally {
        await proxy.close();
      }
    });

    describe('are got with the options of the backend:', () => {
      let taskId: string;

      beforeEach(async () => {
        taskId = randomUUID();
        await finish(taskId, 'SUCCESS', 42);
        await outbox.close();
      });
      const get = (backend: string, options?: Partial<CeleryOptions>): Promise<unknown> =>
        open(backend, options).celery.asyncResult(taskId).get(10_000, 5);
      const refuses = async (backend: string, options?: Partial<CeleryOptions>): Promise<void> => {
        const getting = open(backend, options).celery.asyncResult(taskId).get(200, 5);
        expect(await messageOf(getting)).to.equal('TIMEOUT');
        expect(logger.lines[0]).to.include({ message: 'celery_outbox_connection_error' });
      };

      const certificate = createCertificate();
      if (certificate !== undefined) {
        it('over TLS, when the certificate is known, and not when it is not', async () => {
          const proxy = await createSwitchProxy(url, certificate);
          const known = { tls: { ca: certificate.cert } };
          try {
            const backend = `rediss://localhost:${String(proxy.port)}/0`;
            const got: [string, Partial<CeleryOptions>][] = [
              [backend, { brokerOptions: known }],
              [backend, { broker: 'amqp://not-used.invalid', backendOptions: known }],
              [`${backend}?ssl_cert_reqs=CERT_NONE`, {}],
            ];
            for (const [at, options] of got) {
              expect(await get(at, options)).to.equal(42);
              expect(logger.lines).to.deep.equal([]);
              await outbox.close();
            }
            const refused: [string, Partial<CeleryOptions>][] = [
              [backend, {}],
              [`${backend}?ssl_cert_reqs=CERT_OPTIONAL`, {}],
              [backend, { brokerOptions: known, backendOptions: {} }],
              [backend, { broker: 'rediss://other.invalid', brokerOptions: known }],
            ];
            for (const [at, options] of refused) {
              await refuses(at, options);
              expect(logger.lines[0]?.fields)
                .to.have.property('error')
                .that.has.property('code', 'DEPTH_ZERO_SELF_SIGNED_CERT');
              await outbox.close();
            }
          } finally {
            await proxy.close();
          }
        });
      }

      if (redisBinary !== undefined) {
        it('from the master that a Sentinel knows', async () => {
          const timersEnd = await watchTimers();
          const { port } = new URL(url);
          const sentinel = await startRedisProcess([`sentinel monitor m 127.0.0.1 ${port} 1`], '--sentinel');
          const sentinels = [
            { host: '127.0.0.1', port: await closedPort() },
            { host: '127.0.0.1', port: sentinel.port },
          ];
          try {
            const brokerOptions = { sentinels, name: 'm' };
            expect(await get('redis://not-used.invalid/0', { brokerOptions })).to.equal(42);
            await outbox.close();
          } finally {
            await sentinel.close();
          }
          await timersEnd();
        });
      }

      it('as the user of the URL, or of the options', async () => {
        const { host } = new URL(url);
        await redis.call(
          'ACL',
          'SETUSER',
          'reader',
          'on',
          '>p@ss',
          '~celery-task-meta-*',
          '+get',
          '+info',
          '+ping',
        );
        try {
          expect(await get(`redis://reader:p%40ss@${host}`)).to.equal(42);
          await outbox.close();
          const backendOptions = { username: 'reader', password: 'p@ss' };
          expect(await get(`redis://${host}`, { backendOptions })).to.equal(42);
          expect(logger.lines).to.deep.equal([]);
          await outbox.close();
        } finally {
          await redis.call('ACL', 'DELUSER', 'reader');
        }
      });

      it('from no other database than the one that was meant', async () => {
        for (const db of ['4000', 'celery']) {
          await refuses(`${url}/${db}`);
          await outbox.close();
        }
        expect(await get(url, { brokerOptions: { db: 7 } })).to.equal(42);
        await outbox.close();
        open(url, { backendOptions: { db: 7 } });
        expect(await outbox.celery.asyncResult(taskId).status()).to.equal(null);
      });

      it('under the prefix of the keys', async () => {
        for (const [resultKeyPrefix, key] of [
          ['app', `app_celery-task-meta-${taskId}`],
          ['app:', `app:celery-task-meta-${taskId}`],
        ] as const) {
          await redis.set(key, JSON.stringify({ status: 'SUCCESS', result: resultKeyPrefix }), 'EX', 60);
          expect(await get(url, { resultKeyPrefix })).to.equal(resultKeyPrefix);
          await outbox.close();
        }
      });

      it('which may be of no use', async () => {
        const backendOptions = { sentinels: [{ host: '127.0.0.1', port: 1 }] };
        await refuses(url, { backendOptions });
        const asked = outbox.celery.asyncResult(taskId).status();
        const error = await rejection('ERR_CELERY_OUTBOX_BACKEND_OUTAGE', asked);
        expect(error.message).to.include('name of master');
      });
    });

    it('come over a new connection when the first was ended', async () => {
      const proxy = await createSwitchProxy(url);
      await outbox.close();
      open(proxy.url);
      try {
        const result = outbox.celery.asyncResult(randomUUID());
        await result.status();
        proxy.cut();
        await finish(result.taskId, 'SUCCESS', 1);
        expect(await result.get(10_000, 5)).to.equal(1);
        expect(proxy.accepted).to.equal(2);
        await outbox.close();
      } finally {
        await proxy.close();
      }
    });

    it('can be asked for again after disconnect()', async () => {
      const result = outbox.celery.asyncResult(randomUUID());
      await finish(result.taskId, 'SUCCESS', 1);
      await outbox.celery.asyncResult(randomUUID()).status();
      await outbox.celery.disconnect();
      expect(await result.get(10_000, 5)).to.equal(1);
    });
  });

  it('that many wait for while the backend is away cost an attempt a second and one line of log', async () => {
    const server = await createSilentServer((socket) => socket.destroy());
    open(`redis://127.0.0.1:${String(server.port)}`);
    const waiting = Array.from({ length: 10 }, () =>
      messageOf(outbox.celery.asyncResult(randomUUID()).get(2_500, 5)),
    );
    expect(new Set(await Promise.all(waiting))).to.deep.equal(new Set(['TIMEOUT']));
    expect(server.accepted).to.be.within(2, 3);
    expect(logger.lines).to.have.length(1);
    await outbox.close();
    await server.close();
  });

  it('that are waited for over an outage are got after it, and each outage is told once', async function () {
    this.timeout(60_000);
    // Not the shared server: it is killed here.
    const services = await startServices(['redis']);
    const { url } = services.redis;
    try {
      open(url);
      for (const outages of [1, 2]) {
        const results = Array.from({ length: 5 }, () => outbox.celery.asyncResult(randomUUID()));
        await eventually(() => results[0]!.status());
        await services.redis.kill();
        const waiting = results.map((result) => result.get(30_000, 5));
        await eventually(() => rejection('ERR_CELERY_OUTBOX_BACKEND_OUTAGE', results[0]!.status()));
        await services.redis.start();
        const admin = createAdmin(url);
        for (const { taskId } of results) {
          await admin.set(
            `celery-task-meta-${taskId}`,
            JSON.stringify({ status: 'SUCCESS', result: outages }),
          );
        }
        admin.disconnect();
        expect(new Set(await Promise.all(waiting))).to.deep.equal(new Set([outages]));
        expect(logger.lines).to.have.length(outages);
      }
      await outbox.close();
    } finally {
      await services.close();
    }
  });

  it('are waited for over a new connection when the backend has become silent', async () => {
    const { url } = await service('redis');
    const proxy = await createSwitchProxy(url);
    try {
      const result = open(proxy.url).celery.asyncResult(randomUUID());
      await result.status();
      proxy.hold('replies');
      const getting = result.get(15_000, 5);
      await eventually(() => {
        expect(logger.lines).to.have.length(1);
      }, 8_000);
      proxy.release();
      const admin = createAdmin(url);
      await admin.set(`celery-task-meta-${result.taskId}`, JSON.stringify({ status: 'SUCCESS', result: 1 }));
      admin.disconnect();
      expect(await getting).to.equal(1);
      expect(proxy.accepted).to.equal(2);
      await outbox.close();
    } finally {
      await proxy.close();
    }
  });

  it('in RabbitMQ, which gives each only once, can be asked for more than once', async () => {
    const { url } = await service('rabbitmq');
    const result = open(url).celery.asyncResult(randomUUID());
    await outbox.celery.backend.storeResult(result.taskId, { sum: 3 }, 'SUCCESS');
    await eventually(async () => {
      expect(await result.status()).to.equal('SUCCESS');
    });
    expect(await result.get(10_000, 5)).to.deep.equal({ sum: 3 });
    expect(await Promise.all([result.get(10_000, 5), result.result()])).to.deep.equal([
      { sum: 3 },
      { sum: 3 },
    ]);
  });

  it('are refused at once without a backend', async () => {
    const result = open().celery.asyncResult(randomUUID());
    const code = 'ERR_CELERY_OUTBOX_NO_BACKEND';
    for (const asked of [result.get(), result.get(10), result.result(), result.status()]) {
      await rejection(code, asked);
    }
  });

  for (const protocol of ['redis', 'amqp']) {
    it(`are waited for, then given up, while the backend is away (${protocol})`, async () => {
      const url = `${protocol}://127.0.0.1:${String(await closedPort())}`;
      const result = open(url).celery.asyncResult(randomUUID());
      expect(await messageOf(result.get(100, 10))).to.equal('TIMEOUT');
      await rejection('ERR_CELERY_OUTBOX_BACKEND_OUTAGE', result.status());
      await rejection('ERR_CELERY_OUTBOX_BACKEND_OUTAGE', result.result());
      expect(logger.lines.map((line) => line.message)).to.include('celery_outbox_connection_error');
      await outbox.close();
      expect(openSockets(url)).to.equal(0);
    });
  }
});

function messageOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => (error as Error).message);
}
