import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createOutbox, type Outbox } from '../../../lib';
import { createMigrationSource } from '../../../lib/migrations';
import { createRelay, type Relay, type RelayOptions } from '../../../lib/relay';
import { PUBLISHED } from '../../../lib/testing';
import { startServices, type Services } from '../../../services';
import { canRunPrivately, privatePlatform } from '../../services/fixtures/platforms';
import { useAdmin } from '../../support/amqp-admin';
import { eventually } from '../../support/eventually';
import { type LogLine, recordingLogger } from '../../support/log';
import { useRelayProcesses } from '../../support/relay-process';
import { insertTasks } from '../../support/relay-rows';
import { ScriptedBroker } from '../../support/scripted-broker';
import { Arrivals, Traffic } from './fixtures/traffic';

const IDLE_MS = 300;
const LEASE_MS = 5_000;
/** Longer than any test: what arrives, arrives because somebody woke the relay. */
const LONG_IDLE_MS = 600_000;
/** The listener waits twice as long after each attempt that failed. */
const LISTENS_AGAIN_MS = 15_000;
// Knex would print each broken connection.
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} };

if (canRunPrivately()) {
  describe('relays whose PostgreSQL goes away', function () {
    this.timeout(60_000);
    const bench = useAdmin();
    const spawn = useRelayProcesses();
    let services: Services<'postgres'>;
    let knex: Knex;
    let queue: string;
    let arrivals: Arrivals;
    let lines: LogLine[];
    let closing: (() => Promise<unknown>)[];

    before(async () => {
      services = await startServices(['postgres'], { platform: privatePlatform() });
      knex = createKnex({
        client: 'pg',
        connection: services.postgres.url,
        pool: { min: 0, max: 20 },
        log: SILENT,
      });
      await knex.migrate.latest({ migrationSource: createMigrationSource(), tableName: 'outbox_migrations' });
    });
    beforeEach(async () => {
      await knex.raw('TRUNCATE celery_outbox, celery_outbox_dead_letter');
      queue = await bench.admin.queue();
      arrivals = await Arrivals.watch(bench.admin, queue);
      closing = [];
    });
    afterEach(async () => {
      await services.postgres.start();
      for (const close of closing.toReversed()) await close();
    });
    after(async () => {
      await knex.destroy();
      await services.close();
    });

    async function start(options: Partial<RelayOptions> = {}): Promise<Relay> {
      const { lines: logged, ...logger } = recordingLogger();
      lines = logged;
      const relay = createRelay({
        knex,
        celery: { broker: bench.url, queue },
        idleMs: IDLE_MS,
        leaseMs: LEASE_MS,
        logger,
        ...options,
      });
      closing.push(() => relay.stop());
      await relay.start();
      return relay;
    }
    function outboxOf(): Outbox {
      const { lines: _, ...logger } = recordingLogger();
      const outbox = createOutbox({ knex, logger });
      closing.push(() => outbox.close());
      return outbox;
    }
    function runTraffic(): Traffic {
      const traffic = new Traffic(knex);
      closing.push(() => traffic.stop());
      return traffic;
    }
    const logged = (event: string): LogLine[] => lines.filter(({ message }) => message === event);
    const listens = (relay: Relay): Promise<void> =>
      eventually(() => {
        expect(relay.status().isListening).to.equal(true);
      }, LISTENS_AGAIN_MS);
    const emptied = (): Promise<void> =>
      eventually(async () => {
        expect(await knex('celery_outbox').pluck('task_id')).to.deep.equal([]);
      }, 2 * LEASE_MS);

    for (const end of ['stop', 'kill'] as const) {
      it(`${end} and start: they go on, and every task that was committed arrives`, async () => {
        const relay = await start();
        const traffic = runTraffic();
        await traffic.more(10);
        await arrivals.catchUp(traffic);
        const burst = await insertTasks(knex, 2_000);
        await services.postgres[end]();
        await eventually(() => {
          // A pass that had something in its hands does not end before that is settled.
          expect(lines.map(({ message }) => message)).to.include.oneOf([
            'celery_outbox_pass_failed',
            'celery_outbox_settle_failed',
          ]);
          expect(relay.status().isListening).to.equal(false);
          expect(traffic.failed).to.be.above(10);
        });
        expect(logged('celery_outbox_listen_lost')).to.have.length(1);
        await services.postgres.start();
        await traffic.more(10);
        await traffic.stop();
        await arrivals.include([...burst, ...traffic.ids], 2 * LEASE_MS);
        await emptied();
        await listens(relay);
        expect(await knex('celery_outbox_dead_letter').pluck('last_error')).to.deep.equal([]);
      });
    }

    it('wake up at a commit again after the restart, however long the idle time is', async () => {
      const relay = await start({ idleMs: LONG_IDLE_MS });
      const outbox = outboxOf();
      const send = async (): Promise<string> => {
        const { taskId } = await outbox.transaction(() => outbox.celery.sendTask('tests.noop'));
        return taskId;
      };
      await arrivals.include([await send()], 2_000);
      await services.postgres.kill();
      await eventually(() => {
        expect(relay.status().isListening).to.equal(false);
      });
      await services.postgres.start();
      // What is committed before it listens again is found when it does.
      const [missed] = await insertTasks(knex, 1);
      await listens(relay);
      await arrivals.include([missed!], 2_000);
      // The writer's own connection broke too, and its first NOTIFY may be lost with it.
      await eventually(async () => {
        await arrivals.include([await send()], 500);
      });
      await emptied();
      expect(arrivals.twice).to.deep.equal([]);
    });

    it('say so once an idle time while it is away, and stop in time', async () => {
      const relay = await start();
      await services.postgres.kill();
      const begunAt = performance.now();
      await eventually(() => {
        expect(logged('celery_outbox_pass_failed').length).to.be.above(4);
      });
      const failed = logged('celery_outbox_pass_failed').length;
      expect(failed).to.be.at.most((performance.now() - begunAt) / IDLE_MS + 2);
      const stoppedAt = performance.now();
      await relay.stop();
      expect(performance.now() - stoppedAt).to.be.below(4_000);
    });

    it('settle what they had sent when it is back, send nothing twice, and say it once that they could not', async () => {
      const broker = new ScriptedBroker();
      let acknowledge = (): void => undefined;
      const acknowledged = new Promise<void>((resolve) => (acknowledge = resolve));
      broker.answer = async () => {
        await acknowledged;
        return PUBLISHED;
      };
      const stored = await insertTasks(knex, 10);
      // Shorter than it is away: nobody can claim the rows meanwhile.
      await start({ celery: { broker: () => broker }, leaseMs: 300 });
      await eventually(() => {
        expect(broker.received).to.have.length(10);
      });
      await services.postgres.kill();
      acknowledge();
      const traffic = runTraffic();
      // It tries again five times a second.
      await eventually(() => {
        expect(logged('celery_outbox_settle_failed')).not.to.be.empty;
        expect(traffic.failed).to.be.above(20);
      });
      await services.postgres.start();
      await traffic.stop();
      await emptied();
      expect(logged('celery_outbox_settle_failed')).to.have.length(1);
      expect(broker.acknowledged.toSorted()).to.deep.equal([...stored, ...traffic.ids].sort());
    });

    it('are started while it is away, and begin when it comes', async () => {
      const [waiting] = await insertTasks(knex, 1);
      await services.postgres.stop();
      const begunAt = performance.now();
      const relay = await start();
      expect(performance.now() - begunAt).to.be.below(6_000);
      await services.postgres.start();
      await arrivals.include([waiting!]);
      await listens(relay);
    });

    it('in a process of its own: it does not end, and SIGTERM ends it with 0', async () => {
      const relay = spawn({
        'database-url': services.postgres.url,
        broker: bench.url,
        queue,
        'idle-time': IDLE_MS / 1000,
        'stale-timeout-seconds': LEASE_MS / 1000,
      });
      await relay.logged('celery_outbox_relay_started');
      const traffic = runTraffic();
      await traffic.more(5);
      for (const end of ['kill', 'stop'] as const) {
        const { failed } = traffic;
        await services.postgres[end]();
        await eventually(() => {
          expect(traffic.failed - failed).to.be.above(10);
        });
        await services.postgres.start();
        await traffic.more(5);
        await arrivals.catchUp(traffic);
      }
      await traffic.stop();
      await arrivals.catchUp(traffic);
      relay.signal('SIGTERM');
      expect(await relay.exited).to.equal(0);
      expect(relay.errors()).to.equal('');
    });
  });
}
