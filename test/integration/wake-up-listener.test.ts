import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createOutbox } from '../../lib';
import { wakeUpChannel } from '../../lib/store/notify';
import { tableNames } from '../../lib/store/table-names';
import { WakeUpListener, type WakeUpListenerOptions } from '../../lib/store/wake-up-listener';
import { startServices } from '../../services';
import { privatePlatform } from '../services/fixtures/platforms';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { createFreezingProxy } from '../support/freezing-proxy';
import { recordingLogger, type LogLine } from '../support/log';
import { openSockets } from '../support/open-sockets';
import { createSilentServer } from '../support/silent-server';

const LOST = 'celery_outbox_listen_lost';
const LISTENING = 'celery_outbox_listening';

describe('the wake-up of a relay', () => {
  const names = tableNames();
  const channel = wakeUpChannel(names);
  // Fast enough for a test; the deadline is only for what never answers.
  const timing = { firstRetryMs: 5, maxRetryMs: 20 };
  let db: TestDatabase;
  let logger: ReturnType<typeof recordingLogger>;
  let wakeUps: number;
  let toClose: (() => Promise<unknown>)[];

  before(async () => {
    db = await createDatabase();
  });
  beforeEach(() => {
    logger = recordingLogger();
    wakeUps = 0;
    toClose = [];
  });
  afterEach(async () => {
    for (const close of toClose.reverse()) await close();
  });
  after(() => db.close());

  function knexWith(connection: Knex.Config['connection']): Knex {
    const knex = createKnex({ client: 'pg', connection: connection!, pool: { min: 0, max: 1 } });
    toClose.push(() => knex.destroy());
    return knex;
  }

  function listenerWith(options: Partial<WakeUpListenerOptions> = {}): WakeUpListener {
    const onWakeUp = (): void => void (wakeUps += 1);
    const listener = new WakeUpListener({ knex: db.knex, names, logger, onWakeUp, timing, ...options });
    toClose.push(() => listener.stop());
    return listener;
  }

  /** Listening, and woken by that. */
  async function startedWith(options: Partial<WakeUpListenerOptions> = {}): Promise<WakeUpListener> {
    const listener = listenerWith(options);
    await listener.start();
    expect(listener.isListening).to.equal(true);
    await untilWoken(1);
    return listener;
  }

  const logged = (event: string): LogLine[] => logger.lines.filter(({ message }) => message === event);
  const untilWoken = (count: number): Promise<unknown> => eventually(() => expect(wakeUps).to.equal(count));
  const untilLogged = (event: string, count: number): Promise<unknown> =>
    eventually(() => expect(logged(event)).to.have.length(count));
  const notify = (knex = db.knex): Promise<unknown> => knex.raw("SELECT pg_notify(?, '')", [channel]);

  it('comes when listening begins, and with every commit of a writer', async () => {
    await startedWith();
    expect(logged(LISTENING)).to.deep.equal([{ level: 'info', message: LISTENING, fields: { channel } }]);
    const outbox = createOutbox({ knex: db.knex, logger });
    toClose.push(() => outbox.close());
    await outbox.transaction(() => outbox.celery.sendTask('t'));
    await untilWoken(2);
    await outbox.transaction(() => outbox.celery.sendTask('t'));
    await untilWoken(3);
    expect(logged(LOST)).to.deep.equal([]);
  });

  it('takes no connection of the pool', async () => {
    const knex = knexWith(db.url);
    const holder = await knex.transaction();
    try {
      await startedWith({ knex });
      await notify();
      await untilWoken(2);
    } finally {
      await holder.rollback();
    }
  });

  it('is one for many notifications that come together', async () => {
    await startedWith();
    await db.knex.raw('SELECT pg_notify(?, n::text) FROM generate_series(1, 1000) AS n', [channel]);
    await notify();
    await eventually(() => expect(wakeUps).to.be.at.least(2));
    expect(wakeUps).to.be.below(100);
  });

  it('goes on after onWakeUp has thrown, or rejected', async () => {
    const failures = [new Error('thrown'), new Error('rejected')];
    await startedWith({
      onWakeUp: () => {
        wakeUps += 1;
        if (wakeUps === 1) throw failures[0]!;
        return wakeUps === 2 ? Promise.reject(failures[1]!) : undefined;
      },
    });
    await notify();
    await untilWoken(2);
    await notify();
    await untilWoken(3);
    const errors = logged('celery_outbox_signal_error').map(({ fields }) => fields['error']);
    expect(errors).to.deep.equal(failures);
  });

  it('goes on when its backend is terminated: it listens again, and wakes for what it missed', async () => {
    const listener = await startedWith();
    for (const time of [1, 2]) {
      await db.knex.raw(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'",
      );
      await untilLogged(LOST, time);
      await untilLogged(LISTENING, time + 1);
      await untilWoken(time + 1);
      expect(listener.isListening).to.equal(true);
    }
    expect(logged(LOST)[0]).to.have.property('level', 'warn');
    expect(logged(LOST)[0]?.fields['error']).to.be.instanceOf(Error);
    await notify();
    await untilWoken(4);
  });

  it('goes on after a connection that is dead without a sign', async () => {
    const proxy = await createFreezingProxy(db.url);
    toClose.push(() => proxy.close());
    const knex = knexWith(proxy.url);
    const listener = await startedWith({ knex, timing: { ...timing, heartbeatMs: 20, timeoutMs: 500 } });
    proxy.freeze();
    await untilLogged(LOST, 1);
    expect(listener.isListening).to.equal(false);
    expect((logged(LOST)[0]?.fields['error'] as Error).message).to.include('no answer to a statement');
    await untilLogged(LISTENING, 2);
    await notify();
    await untilWoken(3);
    expect(openSockets(proxy.url)).to.equal(1);
  });

  it('goes on after PostgreSQL was stopped, killed and started again', async () => {
    const services = await startServices(['postgres'], { platform: privatePlatform() });
    toClose.push(() => services.close());
    const { postgres } = services;
    const knex = createKnex({
      client: 'pg',
      connection: postgres.url,
      log: { warn: () => undefined, error: () => undefined },
    });
    toClose.push(() => knex.destroy());
    const listener = await startedWith({ knex });
    for (const [time, end] of [() => postgres.stop(), () => postgres.kill()].entries()) {
      await end();
      await untilLogged(LOST, time + 1);
      expect(listener.isListening).to.equal(false);
      await postgres.start();
      await untilLogged(LISTENING, time + 2);
    }
    await untilWoken(3);
    await notify(knex);
    await untilWoken(4);
  }).timeout(60_000);

  it('goes on after a start without a database, and says so once', async () => {
    const closed = Object.assign(new URL(db.url), { port: String(await closedPort()) }).href;
    const attempts: string[] = [];
    let isOutage = true;
    const knex = knexWith(() => {
      attempts.push(isOutage ? closed : db.url);
      return { connectionString: attempts.at(-1)! };
    });
    const listener = listenerWith({ knex });
    await listener.start();
    expect(listener.isListening).to.equal(false);
    await eventually(() => expect(attempts).to.have.length.above(4));
    expect(logged(LOST)).to.have.length(1);
    expect(wakeUps).to.equal(0);
    isOutage = false;
    await untilLogged(LISTENING, 1);
    await untilWoken(1);
    expect(logged(LOST)).to.have.length(1);
  });

  it('tries again after twice as long each time, up to a limit', async () => {
    const at: number[] = [];
    const knex = knexWith(() => {
      at.push(performance.now());
      throw new Error('no settings');
    });
    await listenerWith({ knex, timing: { firstRetryMs: 20, maxRetryMs: 50 } }).start();
    await eventually(() => expect(at).to.have.length(5));
    const waited = at.slice(1).map((time, index) => time - at[index]!);
    // A timer may be a millisecond early, and any time late.
    for (const [index, ms] of [20, 40, 50, 50].entries()) expect(waited[index]).to.be.at.least(ms - 1);
    expect(logged(LOST)).to.have.length(1);
  });

  it('has a deadline for a server that takes the connection and says nothing', async () => {
    const silent = await createSilentServer();
    toClose.push(() => silent.close());
    const url = Object.assign(new URL(db.url), { port: String(silent.port) }).href;
    const listener = listenerWith({ knex: knexWith(url), timing: { timeoutMs: 50, firstRetryMs: 60_000 } });
    await listener.start();
    expect(listener.isListening).to.equal(false);
    expect((logged(LOST)[0]?.fields['error'] as Error).message).to.include('no answer to the connection');
    await eventually(() => expect(openSockets(url)).to.equal(0));
  });

  describe('ends with stop()', () => {
    it('for good: no connection is left, and nothing wakes any more', async () => {
      const proxy = await createFreezingProxy(db.url);
      toClose.push(() => proxy.close());
      const listener = await startedWith({ knex: knexWith(proxy.url) });
      await notify();
      await Promise.all([listener.stop(), listener.stop()]);
      const woken = wakeUps;
      expect(listener.isListening).to.equal(false);
      expect(openSockets(proxy.url)).to.equal(0);
      await notify();
      await listener.start();
      await notify();
      expect(wakeUps).to.equal(woken);
      expect(logged(LOST)).to.deep.equal([]);
    });

    it('also one that was never started', async () => {
      const listener = listenerWith({ knex: knexWith(() => expect.fail('asked for settings')) });
      await listener.stop();
      await listener.start();
      expect(listener.isListening).to.equal(false);
    });

    it('at once while it connects, and while it waits for the next attempt', async () => {
      const silent = await createSilentServer();
      toClose.push(() => silent.close());
      const url = Object.assign(new URL(db.url), { port: String(silent.port) }).href;
      const connecting = listenerWith({ knex: knexWith(url), timing: { timeoutMs: 60_000 } });
      const starting = connecting.start();
      await eventually(() => expect(silent.accepted).to.equal(1));
      await connecting.stop();
      await starting;
      expect(logger.lines).to.deep.equal([]);
      const waiting = listenerWith({
        knex: knexWith(() => Promise.reject(new Error('no settings'))),
        timing: { firstRetryMs: 60_000 },
      });
      await waiting.start();
      await waiting.stop();
      expect(logged(LOST)).to.have.length(1);
    });

    it('within its deadline on a connection that is dead', async () => {
      const proxy = await createFreezingProxy(db.url);
      toClose.push(() => proxy.close());
      const listener = await startedWith({ knex: knexWith(proxy.url), timing: { closeTimeoutMs: 50 } });
      proxy.freeze();
      await listener.stop();
      await eventually(() => expect(openSockets(proxy.url)).to.equal(0));
    });
  });
});
