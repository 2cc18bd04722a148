import { AsyncLocalStorage } from 'node:async_hooks';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import pg from 'pg';
import { createOutbox, type Outbox, type OutboxOptions } from '../../lib';
import { Notifier, type NotifierOptions } from '../../lib/store/notifier';
import { wakeUpChannel } from '../../lib/store/notify';
import { tableNames } from '../../lib/store/table-names';
import { closedPort } from '../support/closed-port';
import { createDatabase, type TestDatabase } from '../support/database';
import { eventually } from '../support/eventually';
import { createFreezingProxy } from '../support/freezing-proxy';
import { createGate } from '../support/gate';
import { recordingLogger, type LogLine } from '../support/log';
import { hearNotifications, type Notifications } from '../support/notifications';
import { createSilentServer } from '../support/silent-server';

describe('the wake-up by a writer', () => {
  const names = tableNames();
  const pool = { min: 0, max: 1 };
  let db: TestDatabase;
  let heard: Notifications;
  let logger: ReturnType<typeof recordingLogger>;
  let toClose: (() => Promise<unknown>)[];

  before(async () => {
    db = await createDatabase();
  });
  beforeEach(async () => {
    await db.empty();
    logger = recordingLogger();
    heard = await hearNotifications(db.url, wakeUpChannel(names));
    toClose = [() => heard.close()];
  });
  afterEach(async () => {
    for (const close of toClose.reverse()) await close();
  });
  after(() => db.close());

  function outboxWith(options: Partial<OutboxOptions> = {}): Outbox {
    const outbox = createOutbox({ knex: db.knex, logger, ...options });
    toClose.push(() => outbox.close());
    return outbox;
  }

  function notifierWith(options: Partial<NotifierOptions> = {}): Notifier {
    const notifier = new Notifier({ knex: db.knex, names, logger, ...options });
    toClose.push(() => notifier.close());
    return notifier;
  }

  function knexWith(connection: Knex.Config['connection']): Knex {
    const log = { warn: () => undefined, error: () => undefined };
    const knex = createKnex({ client: 'pg', connection: connection!, pool, log });
    toClose.push(() => knex.destroy());
    return knex;
  }

  const untilHeard = (count: number): Promise<unknown> =>
    eventually(() => expect(heard.count).to.equal(count));

  /** How many were heard, when all that were sent have been. */
  async function allHeard(): Promise<number> {
    const marker = await hearNotifications(db.url, 'marker');
    await db.knex.raw('NOTIFY marker');
    await eventually(() => expect(marker.count).to.equal(1));
    await marker.close();
    return heard.count;
  }

  /** The connections of notifiers, as the server sees them. */
  const backends = (): Promise<number[]> =>
    db
      .knex('pg_stat_activity')
      .whereRaw("datname = current_database() AND query LIKE 'SELECT pg_notify%'")
      .pluck('pid');

  async function cutBackends(): Promise<void> {
    await db.knex.raw('SELECT pg_terminate_backend(pid) FROM unnest(?::int[]) AS pid', [await backends()]);
    await eventually(async () => expect(await backends()).to.deep.equal([]));
  }

  const failures = (): LogLine[] =>
    logger.lines.filter(({ message }) => message === 'celery_outbox_notify_failed');

  it('follows every kind of commit that stored tasks', async () => {
    const outbox = outboxWith();
    await outbox.transaction(() => outbox.celery.sendTask('t'));
    await untilHeard(1);
    await outbox.celery.sendTask('t');
    await untilHeard(2);
    await db.knex.transaction((trx) => outbox.celery.sendTask('t', [], {}, { trx }));
    await untilHeard(3);
    const trx = await db.knex.transaction();
    await outbox.celery.sendTask('t', [], {}, { trx });
    await trx.commit();
    await untilHeard(4);
  });

  it('does not follow a rollback, nor a commit that stored nothing', async () => {
    const outbox = outboxWith();
    const sendOnce = (): Promise<unknown> =>
      outbox.transaction(() => outbox.celery.sendTask('t', [], {}, { idempotencyKey: 'k' }));
    await sendOnce();
    await untilHeard(1);
    await sendOnce();
    await outbox.transaction((trx) => trx('orders').insert({ note: 'a' }));
    await outbox
      .transaction(async () => {
        await outbox.celery.sendTask('t');
        throw new Error('rolled back');
      })
      .catch(() => undefined);
    await outbox.close();
    expect(await allHeard()).to.equal(1);
  });

  it('comes at once after the first of many commits, then at most once in 10 ms', async () => {
    const outbox = outboxWith();
    const began = performance.now();
    await Promise.all(Array.from({ length: 200 }, () => outbox.celery.sendTask('t')));
    await outbox.close();
    const tookMs = performance.now() - began;
    // One at the start, one for each interval, one at the end.
    expect(await allHeard()).to.be.within(2, 2 + tookMs / 10);
  });

  it('takes no connection of the pool, and waits for none', async () => {
    const knex = knexWith(db.url);
    const outbox = outboxWith({ knex });
    const statements: string[] = [];
    knex.on('query', ({ sql }: { sql: string }) => statements.push(sql));
    const trx = await knex.transaction();
    await outbox.celery.sendTask('t', [], {}, { trx });
    const next = knex.transaction();
    await trx.commit();
    const holder = await next;
    await untilHeard(1);
    expect(statements.filter((sql) => sql.includes('notify'))).to.deep.equal([]);
    await holder.rollback();
  });

  it('goes to the channel of the schema and table', async () => {
    const own = { schema: 'public', tableName: 'celery_outbox' };
    const elsewhere = await hearNotifications(db.url, wakeUpChannel(tableNames(own)));
    toClose.push(() => elsewhere.close());
    const outbox = outboxWith(own);
    await outbox.celery.sendTask('t');
    await eventually(() => expect(elsewhere.count).to.equal(1));
    expect(await allHeard()).to.equal(0);
  });

  it('is not sent with notify: false, nor is anything opened for it', async () => {
    let connections = 0;
    const knex = knexWith(() => {
      connections += 1;
      return { connectionString: db.url };
    });
    const outbox = outboxWith({ knex, notify: false });
    await outbox.celery.sendTask('t');
    await outbox.close();
    expect(connections, 'that of the pool').to.equal(1);
    expect(await allHeard()).to.equal(0);
  });

  it('takes the settings from a function, or from a pool of pg', async () => {
    const nativePool = new pg.Pool({ connectionString: db.url });
    toClose.push(() => nativePool.end());
    const pooled = createKnex({ client: 'pg', connectionPool: nativePool } as Knex.Config);
    const provided = knexWith(() => Promise.resolve({ connectionString: db.url }));
    for (const [index, knex] of [provided, pooled].entries()) {
      notifierWith({ knex }).stored();
      await untilHeard(index + 1);
    }
  });

  it('fails without harm: one line per outage, and the next one goes out', async () => {
    const port = await closedPort();
    let isOutage = false;
    const closed = Object.assign(new URL(db.url), { port: String(port) }).href;
    const attempts: string[] = [];
    const knex = knexWith(() => {
      attempts.push(isOutage ? closed : db.url);
      return { connectionString: attempts.at(-1)! };
    });
    const notifier = notifierWith({ knex, timing: { pauseMs: 1 } });
    for (const outage of [1, 2]) {
      isOutage = true;
      await cutBackends();
      await eventually(() => {
        notifier.stored();
        expect(failures()).to.have.length(outage);
      });
      for (let more = 0; more < 3; more += 1) {
        const { length } = attempts;
        notifier.stored();
        await eventually(() => expect(attempts).to.have.length.above(length));
      }
      isOutage = false;
      const before = heard.count;
      await eventually(() => {
        notifier.stored();
        expect(heard.count).to.be.above(before);
      });
    }
    expect(failures()).to.have.length(2);
    expect(failures()[0]).to.have.property('level', 'warn');
  });

  it('tries nothing while it rests after a failure', async () => {
    let attempts = 0;
    const knex = knexWith(() => {
      attempts += 1;
      throw new Error('no settings');
    });
    const notifier = notifierWith({ knex, timing: { pauseMs: 60_000 } });
    notifier.stored();
    await eventually(() => expect(failures()).to.have.length(1));
    for (let more = 0; more < 100; more += 1) notifier.stored();
    expect(attempts).to.equal(1);
    await notifier.close();
    expect(attempts).to.equal(2);
  });

  it('gives up on a database that does not answer any more, and connects anew', async () => {
    const proxy = await createFreezingProxy(db.url);
    toClose.push(() => proxy.close());
    const notifier = notifierWith({ knex: knexWith(proxy.url), timing: { timeoutMs: 100, pauseMs: 1 } });
    notifier.stored();
    await untilHeard(1);
    proxy.freeze();
    notifier.stored();
    await eventually(() => expect(failures()).to.have.length(1));
    expect((failures()[0]?.fields['error'] as Error).message).to.include('no answer to a statement');
    notifier.stored();
    await untilHeard(2);
  });

  it('survives the loss of its connection, also while it is idle', async () => {
    const notifier = notifierWith();
    notifier.stored();
    await untilHeard(1);
    await cutBackends();
    await eventually(() => {
      notifier.stored();
      expect(heard.count).to.be.at.least(2);
    });
  });

  it('ends a connection that is not needed, and opens another when it is', async () => {
    const notifier = notifierWith({ timing: { idleMs: 20 } });
    for (const count of [1, 2]) {
      notifier.stored();
      await untilHeard(count);
      await eventually(async () => expect(await backends()).to.deep.equal([]));
    }
    expect(failures()).to.deep.equal([]);
  });

  it('does not hold the context of the request that came first', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const knex = knexWith(() => {
      seen.push(storage.getStore());
      return { connectionString: db.url };
    });
    const notifier = notifierWith({ knex });
    storage.run('request', () => notifier.stored());
    await untilHeard(1);
    expect(seen).to.deep.equal([undefined]);
  });

  describe('when the outbox is closed', () => {
    it('is sent if it is due, and its connection ends', async () => {
      const notifier = notifierWith({ timing: { intervalMs: 60_000 } });
      notifier.stored();
      notifier.stored();
      await Promise.all([notifier.close(), notifier.close()]);
      notifier.stored();
      expect(await allHeard()).to.equal(2);
      await eventually(async () => expect(await backends()).to.deep.equal([]));
    });

    it('opens nothing if nothing is due', async () => {
      const knex = knexWith(() => expect.fail('asked for settings'));
      await notifierWith({ knex }).close();
      expect(failures()).to.deep.equal([]);
    });

    it('is waited for no longer than the deadline', async () => {
      const gone = createGate();
      const silent = await createSilentServer((socket) => socket.resume().on('close', () => gone.open()));
      toClose.push(() => silent.close());
      const url = Object.assign(new URL(db.url), { port: String(silent.port) }).href;
      const timing = { timeoutMs: 60_000, closeTimeoutMs: 50 };
      const notifier = notifierWith({ knex: knexWith(url), timing });
      notifier.stored();
      notifier.stored();
      await eventually(() => expect(silent.accepted).to.equal(1));
      const began = performance.now();
      await notifier.close();
      expect(performance.now() - began).to.be.below(1_000);
      await gone.opened;
      await eventually(() => expect(failures()).to.have.length(1));
      expect(silent.accepted, 'connections').to.equal(1);
    });
  });

  it('does not keep a process alive that never closes its outbox', async () => {
    const fixture = require.resolve('./fixtures/forgetful-sender.ts');
    await promisify(execFile)(process.execPath, ['--import', 'tsx', fixture, db.url], { timeout: 10_000 });
    expect(await db.rows()).to.have.length(1);
  });
});
