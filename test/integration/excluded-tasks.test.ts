import { connect } from 'amqplib';
import { createWorker } from 'celery-node';
import { expect } from 'chai';
import sinon from 'sinon';
import {
  type Broker,
  BackendOutage,
  BrokerOutage,
  createOutbox,
  MessageFault,
  type Outbox,
  type SendOptions,
  signature,
} from '../../lib';
import { Publisher } from '../../lib/broker/publisher';
import { parseCeleryOptions } from '../../lib/celery-options';
import type { StoredTask } from '../../lib/message/stored-task';
import { startServices, type Services } from '../../services';
import { takeTasks } from '../support/broker-reader';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { recordingLogger } from '../support/log';
import { openSockets } from '../support/open-sockets';
import { createAdmin } from '../support/redis-broker';
import { rejection } from '../support/rejection';
import { service } from '../support/services';

const EMBED = { callbacks: null, errbacks: null, chain: null, chord: null };
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

      /** At once: a send resolves when the broker has acknowledged it. */
      const arrived = async (count: number, from = queue): ReturnType<typeof takeTasks> => {
        const tasks = await takeTasks(url, from);
        expect(tasks).to.have.length(count);
        return tasks;
      };

      it('arrive at once, by name and by expression, and are not stored', async () => {
        const first = await outbox.celery.sendTask('mail.send', [1, 'é'], { to: 'x' });
        const second = await outbox.celery.createTask('cache.drop').delay('k');
        await outbox.celery.sendTask('cache.drop');
        const tasks = await arrived(3);
        expect(tasks[0]?.headers).to.include({ task: 'mail.send', id: first.taskId });
        expect(tasks[0]?.body).to.deep.equal([[1, 'é'], { to: 'x' }, EMBED]);
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

      it('carry the trace, and every option that is about the message', async () => {
        const options: SendOptions = {
          taskId: 'my-id',
          queue: `${queue}-other`,
          eta: '2031-05-06T07:08:09Z',
          timeLimit: 300,
          headers: { tenant: 7 },
          link: signature('x'),
        };
        await outbox.celery.sendTask('mail.send', [2n ** 53n], {}, options);
        const [task] = await arrived(1, `${queue}-other`);
        expect(task?.headers).to.include({ id: 'my-id', ...TRACE, eta: '2031-05-06T07:08:09.000000+00:00' });
        expect(task?.headers).to.deep.include({ timelimit: [300, null], headers: { ...TRACE, tenant: 7 } });
        expect(task?.body).to.have.nested.property('[2].callbacks[0].task', 'x');
        expect(task?.body).to.have.nested.property('[0][0]', 2 ** 53);
      });

      it("leave through celery-node's own methods as well, acknowledged", async () => {
        const { celery } = outbox;
        await celery.sendTaskMessage('t', celery.asTaskV2('an-id', 't', [1], { a: 1 }));
        await celery.sendTaskMessage('t', celery.asTaskV2('other', 't'));
        const [first, second] = await arrived(2);
        expect(first?.headers).to.include({ task: 't', id: 'an-id' });
        expect(first?.body).to.deep.equal([[1], { a: 1 }, {}]);
        expect(second?.body).to.deep.equal([[], {}, {}]);
        const broken = { headers: { task: 't' }, properties: {}, body: [], sentEvent: {} };
        await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', celery.sendTaskMessage('t', broken));
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

      it('are refused with options that are about a row, before anything is stored or sent', async () => {
        const unkept: SendOptions[] = [
          { orderingKey: 'k' },
          { idempotencyKey: 'k' },
          { holdUntil: new Date() },
        ];
        for (const options of unkept) {
          const sending = outbox.celery.sendTasks([{ name: 'a' }, { name: 'mail.send', options }]);
          const error = await rejection('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', sending);
          expect(error.message).to.match(/mail\.send .*cannot be kept: \w+/);
        }
        const canvas = signature('mail.send');
        await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', outbox.celery.applyAsync(canvas));
        await arrived(0);
        expect(await db.rows()).to.deep.equal([]);
      });

      it('that the broker refuses fail the call, which says what was sent', async () => {
        const calls = [
          { name: 'mail.send' as const },
          { name: 'cache.drop' as const, options: { exchange: 'nowhere', routingKey: 'x' } },
          { name: 'a' as const },
        ];
        const error = await rejection('ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED', outbox.celery.sendTasks(calls));
        expect(error.message).to.match(/cache\.drop.*\(1 of 2 tasks of this call were sent\).*nowhere/);
        expect(error.cause).to.have.property('code', 'ERR_CELERY_OUTBOX_UNROUTABLE');
        await arrived(1);
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

  it('use a queue of RabbitMQ as it is, whatever its arguments', async () => {
    const { url } = await service('rabbitmq');
    open(url);
    const connection = await connect(url);
    const channel = await connection.createChannel();
    await channel.assertQueue('excluded-other', { durable: true, arguments: { 'x-max-priority': 5 } });
    await outbox.celery.sendTask('mail.send', [], {}, { queue: 'excluded-other' });
    expect(await channel.deleteQueue('excluded-other')).to.have.property('messageCount', 1);
    await connection.close();
  });

  it("go to a broker of the user's own, which is made when it is needed and closed with the outbox", async () => {
    const calls: string[] = [];
    const broker: Broker = {
      connect: () => Promise.resolve(),
      publish(messages) {
        calls.push(
          ...messages.map(({ headers, route }) => `${headers['task'] as string} to ${route.routingKey}`),
        );
        return Promise.resolve(
          messages.map((_, index) =>
            index === 0
              ? { status: 'published' }
              : { status: 'outage', error: new BrokerOutage('not today') },
          ),
        );
      },
      close() {
        calls.push('closed');
        return Promise.resolve();
      },
    };
    outbox = createOutbox({
      knex: db.knex,
      logger: recordingLogger(),
      excludeTasks: ['mail.send'],
      celery: {
        broker: () => {
          calls.push('made');
          return broker;
        },
      },
    });
    expect(calls).to.deep.equal([]);
    await outbox.celery.sendTask('mail.send');
    const both = outbox.celery.sendTasks([{ name: 'mail.send' }, { name: 'mail.send' }]);
    const error = await rejection('ERR_CELERY_OUTBOX_DIRECT_SEND_FAILED', both);
    expect(error.cause).to.be.instanceOf(BrokerOutage).and.not.instanceOf(MessageFault);
    await outbox.close();
    expect(calls).to.deep.equal(['made', ...Array<string>(3).fill('mail.send to celery'), 'closed']);
  });

  it('publish at once although the result backend of a chord beside them is away', async () => {
    const { url } = await service('redis');
    const backend = `redis://127.0.0.1:${String(await closedPort())}`;
    for (const given of [{}, { backend }]) {
      const publisher = new Publisher(
        parseCeleryOptions({ broker: url, queue: 'excluded-chord', ...given }),
        recordingLogger(),
      );
      const outcomes = await publisher.publish([row('{}'), row('{"chord_size":{"g":1}}'), row('{"x":1}')]);
      const failure = given.backend === undefined ? 'fault' : 'outage';
      expect(outcomes.map(({ status }) => status)).to.deep.equal(['published', failure, 'fault']);
      if (failure === 'outage') {
        expect(outcomes[1])
          .to.have.property('error')
          .that.is.instanceOf(BackendOutage)
          .and.is.not.instanceOf(BrokerOutage);
      }
      await publisher.close();
    }
  });

  it('publish, as do parts of other chords, although the result backend refuses one chord', async () => {
    const { url } = await service('redis');
    const backend = new URL(url);
    Object.assign(backend, { username: 'one-chord', password: 'pw' });
    const admin = createAdmin(url);
    await admin.call('ACL', 'SETUSER', 'one-chord', 'on', '>pw', '~celery-taskset-meta-good*', '+@all');
    const publisher = new Publisher(
      parseCeleryOptions({ broker: url, backend: backend.href, queue: 'excluded-chord' }),
      recordingLogger(),
    );
    try {
      await takeTasks(url, 'excluded-chord');
      const sizes = ['{"good1":1}', '{"bad":2}', '{"good2":1}', '{"bad":2}', '{"good2":1,"bad":2}'];
      const outcomes = await publisher.publish([
        ...sizes.map((size) => row(`{"chord_size":${size}}`)),
        row('{}'),
      ]);
      expect(outcomes.map(({ status }) => status)).to.deep.equal([
        ...['published', 'fault', 'published', 'fault', 'fault', 'published'],
      ]);
      expect(outcomes[1]).to.have.nested.property('error.code', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED');
      expect(await takeTasks(url, 'excluded-chord')).to.have.length(3);
    } finally {
      await publisher.close();
      await admin.call('ACL', 'DELUSER', 'one-chord');
      await admin.del('celery-taskset-meta-good1.s', 'celery-taskset-meta-good2.s');
      admin.disconnect();
    }
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
        await eventually(() => outbox.celery.sendTask('mail.send', ['back']));
        const tasks = await takeTasks(url, 'celery');
        expect(tasks.map((task) => task.body)).to.deep.equal([[['back'], {}, EMBED]]);
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

function row(options: string): StoredTask {
  return {
    taskId: 'id',
    taskName: 't',
    args: '[]',
    kwargs: '{}',
    options,
    redactedArgs: null,
    redactedKwargs: null,
    traceHeaders: null,
    logContext: null,
  };
}
