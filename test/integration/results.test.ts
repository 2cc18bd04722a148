import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import Redis from 'ioredis';
import { createOutbox, type Outbox } from '../../lib';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { recordingLogger } from '../support/log';
import { openSockets } from '../support/open-sockets';
import { rejection } from '../support/rejection';
import { watchTimers } from '../support/redis-broker';
import { service } from '../support/services';
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

  function open(backend?: string): Outbox {
    logger = recordingLogger();
    const celery = backend === undefined ? undefined : { broker: backend, backend };
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

    it('can be asked for again after disconnect()', async () => {
      const result = outbox.celery.asyncResult(randomUUID());
      await finish(result.taskId, 'SUCCESS', 1);
      await outbox.celery.asyncResult(randomUUID()).status();
      await outbox.celery.disconnect();
      expect(await result.get(10_000, 5)).to.equal(1);
    });
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
