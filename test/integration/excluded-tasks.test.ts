import { connect } from 'amqplib';
import { createWorker } from 'celery-node';
import { expect } from 'chai';
import sinon from 'sinon';
import { createOutbox, signature, type Outbox, type SendOptions } from '../../lib';
import { startServices, type Services } from '../../services';
import { takeTasks } from '../support/broker-reader';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { recordingLogger } from '../support/log';
import { openSockets } from '../support/open-sockets';
import { rejection } from '../support/rejection';
import { service } from '../support/services';

const TRACE = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };

describe('tasks of excludeTasks', () => {
  let db: TestDatabase;
  let outbox: Outbox;

  before(async () => {
    db = await createDatabase();
  });
  after(async () => {
    await db.close();
  });
  beforeEach(() => db.empty());
  afterEach(async () => {
    await outbox.close();
  });

  function open(broker: string, queue = 'celery'): Outbox {
    outbox = createOutbox({
      knex: db.knex,
      logger: recordingLogger(),
      celery: { broker, queue },
      excludeTasks: ['mail.send', /^cache\./g],
      trace: () => TRACE,
    });
    return outbox;
  }

  for (const name of ['redis', 'rabbitmq'] as const) {
    describe(`with ${name}`, () => {
      let url: string;
      const queue = `excluded-${name}`;

      before(async function () {
        this.timeout(60_000);
        ({ url } = await service(name));
      });
      beforeEach(async () => {
        open(url, queue);
        await takeTasks(url, queue);
      });

      /** RabbitMQ has what celery-node published a moment after: it does not confirm. */
      const arrived = (count: number, from = queue): ReturnType<typeof takeTasks> => {
        const tasks: Awaited<ReturnType<typeof takeTasks>> = [];
        return eventually(async () => {
          tasks.push(...(await takeTasks(url, from)));
          expect(tasks).to.have.length(count);
          return tasks;
        });
      };

      it('arrive at once, by name and by expression, and are not stored', async () => {
        const first = await outbox.celery.sendTask('mail.send', [1, 'é'], { to: 'x' });
        const second = await outbox.celery.createTask('cache.drop').delay('k');
        await outbox.celery.sendTask('cache.drop');
        const tasks = await arrived(3);
        expect(tasks[0]?.headers).to.include({ task: 'mail.send', id: first.taskId });
        expect(tasks[0]?.body).to.deep.equal([[1, 'é'], { to: 'x' }, {}]);
        expect(tasks[1]?.headers).to.include({ task: 'cache.drop', id: second.taskId });
        expect(await db.rows()).to.deep.equal([]);
      });

      it('arrive also when the transaction around them is rolled back, and before it ends', async () => {
        const run = outbox.transaction(async () => {
          await outbox.celery.sendTask('mail.send');
          await outbox.celery.sendTask('stored');
          await arrived(1);
          throw new Error('undo');
        });
        expect(await run.catch((error: unknown) => (error as Error).message)).to.equal('undo');
        expect(await db.rows()).to.deep.equal([]);
      });

      it('carry the trace, the id and the queue given', async () => {
        const options = { taskId: 'my-id', queue: `${queue}-other` };
        await outbox.celery.sendTask('mail.send', [], {}, options);
        const [task] = await arrived(1, options.queue);
        expect(task?.headers).to.include({ id: 'my-id', ...TRACE });
      });

      it('go their way from a mixed sendTasks, and the results keep the order', async () => {
        const results = await outbox.transaction(() =>
          outbox.celery.sendTasks([{ name: 'a' }, { name: 'mail.send' }, { name: 'b' }]),
        );
        const rows = await db.rows();
        const [task] = await arrived(1);
        expect(rows.map((row) => row.task_name)).to.deep.equal(['a', 'b']);
        expect(results.map((result) => result.taskId)).to.deep.equal([
          rows[0]?.task_id,
          task?.headers['id'],
          rows[1]?.task_id,
        ]);
      });

      it('are refused with options that celery-node cannot keep, before anything is stored or sent', async () => {
        const unkept: SendOptions[] = [
          { countdown: 1 },
          { priority: 1 },
          { headers: { a: 1 } },
          { link: signature('x') },
          { orderingKey: 'k' },
          { idempotencyKey: 'k' },
          { holdUntil: new Date() },
        ];
        for (const options of unkept) {
          const sending = outbox.celery.sendTasks([{ name: 'a' }, { name: 'mail.send', options }]);
          const error = await rejection('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', sending);
          expect(error.message).to.match(/mail\.send .*cannot keep: \w+/);
        }
        for (const number of [2n ** 53n + 1n, -0]) {
          await rejection('ERR_CELERY_OUTBOX_UNENCODABLE', outbox.celery.sendTask('mail.send', [number]));
        }
        const canvas = signature('mail.send');
        await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', outbox.celery.applyAsync(canvas));
        await outbox.celery.sendTask('mail.send', [2n ** 53n]);
        expect((await arrived(1))[0]?.body).to.deep.equal([[2 ** 53], {}, {}]);
        expect(await db.rows()).to.deep.equal([]);
      });

      it('use no connection until the first, one for all, and none after close()', async () => {
        const expectSockets = (count: number): Promise<void> =>
          eventually(() => {
            expect(openSockets(url)).to.equal(count);
          });
        await expectSockets(0);
        await Promise.all(Array.from({ length: 5 }, () => outbox.celery.sendTask('mail.send')));
        await expectSockets(1);
        await outbox.close();
        await expectSockets(0);
      });
    });
  }

  for (const protocol of ['redis', 'amqp']) {
    it(`are refused in time by a closed port (${protocol}), and nothing of their call is stored`, async () => {
      open(`${protocol}://127.0.0.1:${String(await closedPort())}`);
      for (const attempt of [1, 2]) {
        const error = await rejection(
          'ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED',
          outbox.transaction(async () => {
            await outbox.celery.sendTasks([{ name: 'a' }, { name: 'mail.send' }]);
          }),
        );
        expect(error.message, `attempt ${attempt}`).to.match(/mail\.send.*ECONNREFUSED/);
        expect(error.statusCode).to.equal(503);
      }
      await outbox.transaction(async () => {
        const sending = outbox.celery.sendTasks([{ name: 'a' }, { name: 'mail.send' }]);
        await rejection('ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED', sending);
        await outbox.celery.sendTask('b');
      });
      expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(['b']);
    });
  }

  it('fail alone when RabbitMQ has the queue with other arguments', async () => {
    const { url } = await service('rabbitmq');
    open(url, 'excluded-conflict-default');
    const connection = await connect(url);
    const channel = await connection.createChannel();
    await channel.assertQueue('excluded-conflict', { durable: true, arguments: { 'x-max-priority': 5 } });
    const sending = outbox.celery.sendTask('mail.send', [], {}, { queue: 'excluded-conflict' });
    const error = await rejection('ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED', sending);
    expect(error.message).to.include('PRECONDITION');
    await outbox.celery.sendTask('mail.send');
    await channel.deleteQueue('excluded-conflict');
    await connection.close();
  });

  describe('when the broker dies', () => {
    let services: Services<'redis' | 'rabbitmq'>;

    before(async function () {
      this.timeout(60_000);
      services = await startServices(['redis', 'rabbitmq']);
    });
    after(async function () {
      this.timeout(60_000);
      await services.close();
    });

    for (const name of ['redis', 'rabbitmq'] as const) {
      it(`fail while it is away, and arrive again once it is back (${name})`, async function () {
        this.timeout(60_000);
        const { url } = services[name];
        open(url);
        await outbox.celery.sendTask('mail.send');
        await services[name].kill();
        await eventually(() =>
          rejection('ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED', outbox.celery.sendTask('mail.send', ['lost'])),
        );
        await services[name].start();
        await takeTasks(url, 'celery');
        await outbox.celery.sendTask('mail.send', ['back']);
        await eventually(async () => {
          expect((await takeTasks(url, 'celery')).map((task) => task.body)).to.deep.equal([
            [['back'], {}, {}],
          ]);
        });
      });
    }

    it('do not hold up close()', async () => {
      open(services.redis.url);
      await outbox.celery.sendTask('mail.send');
      const started = Date.now();
      await services.redis.kill();
      await outbox.close();
      expect(Date.now() - started).to.be.below(3_000);
      await services.redis.start();
    });
  });

  it('are run by a worker of celery-node', async () => {
    const { url } = await service('redis');
    const queue = 'excluded-worker';
    outbox = createOutbox({
      knex: db.knex,
      logger: recordingLogger(),
      celery: { broker: url, backend: url, queue },
      excludeTasks: ['tasks.add'],
    });
    const info = sinon.stub(console, 'info');
    const log = sinon.stub(console, 'log');
    const worker = createWorker(url, url, queue);
    try {
      worker.register('tasks.add', (a: number, b: number) => a + b);
      void worker.start();
      const result = await outbox.celery.sendTask('tasks.add', [19, 23]);
      expect(await result.get(10_000, 5)).to.equal(42);
    } finally {
      // Its own disconnect() waits for a blocking read of five seconds.
      for (const end of [worker.broker, worker.backend]) {
        (end as unknown as { redis: { disconnect(): void } }).redis.disconnect();
      }
      await eventually(() => {
        sinon.assert.called(log);
      });
      info.restore();
      log.restore();
    }
  });
});
