import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Relay, RelayOptions } from '../../../lib/relay';
import { canRunPrivately } from '../../services/fixtures/platforms';
import { takeTasks } from '../../support/broker-reader';
import { eventually } from '../../support/eventually';
import { ownRabbitmq } from '../../support/own-rabbitmq';
import { redisBinary, startRedisProcess } from '../../support/redis-process';
import { useRelay } from '../../support/relay';
import { insertTasks } from '../../support/relay-rows';
import { Traffic } from './fixtures/traffic';

const IDLE_MS = 100;
const COOLDOWN_MS = 300;
const BACKOFF_MS = 50;
const MAX_RETRIES = 2;
/** Longer than all retries would take, had they been spent. */
const OUTAGE_MS = 4 * MAX_RETRIES * BACKOFF_MS + 2 * COOLDOWN_MS;

interface OwnBroker {
  readonly url: string;
  stop(): Promise<unknown>;
  kill(): Promise<unknown>;
  start(): Promise<unknown>;
  close(): Promise<unknown>;
}

/** @param own - gets a broker for the suite */
function behavesWhileAway(what: string, own: () => Promise<OwnBroker>): void {
  describe(`a relay whose broker is away: ${what}`, function () {
    this.timeout(60_000);
    const bundle = useRelay();
    const queue = `away-${randomUUID()}`;
    let broker: OwnBroker;
    let directory: string;
    let traffic: Traffic | undefined;

    before(async () => {
      broker = await own();
      directory = mkdtempSync(join(tmpdir(), 'outbox-liveness-'));
    });
    afterEach(async () => {
      await traffic?.stop();
      traffic = undefined;
      await broker.start();
      await taken();
    });
    after(async () => {
      rmSync(directory, { recursive: true });
      await broker.close();
    });

    async function start(options: Partial<RelayOptions> = {}): Promise<Relay> {
      const relay = bundle.relay({
        celery: { broker: broker.url, queue, sendTimeoutMs: 3_000, connectTimeoutMs: 2_000 },
        idleMs: IDLE_MS,
        outageCooldownMs: COOLDOWN_MS,
        backoffMs: BACKOFF_MS,
        maxBackoffMs: BACKOFF_MS,
        maxRetries: MAX_RETRIES,
        batchSize: 20,
        ...options,
      });
      await relay.start();
      return relay;
    }
    const emptied = (): Promise<void> =>
      eventually(async () => {
        expect(await bundle.db.rows()).to.deep.equal([]);
      }, 20_000);
    const taken = async (): Promise<string[]> =>
      (await takeTasks(broker.url, queue)).map(({ headers }) => String(headers['id']));
    /** Waits until the file's time has been set so many more times. */
    async function touched(file: string, times: number, meanwhile: () => void): Promise<void> {
      for (let time = 0; time < times; time += 1) {
        const before = statSync(file).mtimeMs;
        await eventually(() => {
          expect(statSync(file).mtimeMs).to.be.above(before);
        }, 3_000);
        meanwhile();
      }
    }

    async function stopsInTime(relay: Relay): Promise<void> {
      const begunAt = performance.now();
      await relay.stop();
      expect(performance.now() - begunAt).to.be.below(5_000);
      const shutdown = bundle.logged('celery_outbox_relay_shutdown').at(-1);
      expect(shutdown?.fields).to.include({ relay_id: relay.id, unfinished: false });
      const rows = await bundle.db.knex('celery_outbox');
      for (const row of rows) expect(row).to.include({ claimed_by: null, claimed_until: null, retries: 0 });
    }

    it('spends no retry, buries nothing, and sends each task once when it is back', async () => {
      const events: string[] = [];
      const relay = await start();
      relay.events.on('failed', () => events.push('failed'));
      relay.events.on('deadLettered', () => events.push('deadLettered'));
      let deferred = 0;
      relay.events.on('deferred', () => (deferred += 1));
      const early = await insertTasks(bundle.db.knex, 30);
      await emptied();
      await broker.stop();
      const begunAt = performance.now();
      const waiting = await insertTasks(bundle.db.knex, 200);
      traffic = new Traffic(bundle.db.knex);
      await eventually(() => {
        expect(bundle.logged('celery_outbox_breaker_trip').length).to.be.above(2);
        expect(deferred).to.be.above(40);
        expect(performance.now() - begunAt).to.be.above(OUTAGE_MS);
      }, 20_000);
      const rows = await bundle.db.rows();
      expect(rows).to.have.length.of.at.least(200);
      expect(rows.filter(({ retries }) => retries > 0)).to.deep.equal([]);
      await broker.start();
      await eventually(() => {
        expect(bundle.logged('celery_outbox_breaker_closed')).not.to.be.empty;
      }, 20_000);
      await traffic.more(5);
      await traffic.stop();
      await emptied();
      expect(events).to.deep.equal([]);
      expect(await bundle.db.knex('celery_outbox_dead_letter')).to.deep.equal([]);
      expect((await taken()).sort()).to.deep.equal([...early, ...waiting, ...traffic.ids].sort());
      expect(bundle.logged('celery_outbox_pass_failed')).to.deep.equal([]);
    });

    it('loses nothing that was under way when it went', async () => {
      await start();
      traffic = new Traffic(bundle.db.knex);
      const burst = await insertTasks(bundle.db.knex, 2_000);
      await eventually(async () => {
        expect(await bundle.db.rows()).to.have.length.below(1_900);
      });
      await broker.kill();
      await broker.start();
      await traffic.more(5);
      await traffic.stop();
      await emptied();
      expect(await bundle.db.knex('celery_outbox_dead_letter')).to.deep.equal([]);
      expect(new Set(await taken())).to.deep.equal(new Set([...burst, ...traffic.ids]));
    });

    it('is alive while it is idle and while it cools down; stops in time, and leaves nothing claimed', async () => {
      const livenessFile = join(directory, 'alive');
      const relay = await start({ livenessFile, outageCooldownMs: 60_000 });
      const early = await insertTasks(bundle.db.knex, 1);
      await emptied();
      await touched(livenessFile, 3, () => {
        expect(relay.status().isBreakerOpen).to.equal(false);
      });
      await broker.stop();
      const waiting = await insertTasks(bundle.db.knex, 100);
      await eventually(() => {
        expect(relay.status().isBreakerOpen).to.equal(true);
      }, 10_000);
      await touched(livenessFile, 5, () => {
        expect(relay.status().isBreakerOpen).to.equal(true);
      });
      await stopsInTime(relay);
      expect((await bundle.db.rows()).map(({ task_id }) => task_id)).to.deep.equal(waiting);
      const trying = await start();
      const deferred = new Promise((resolve) => trying.events.on('deferred', resolve));
      await bundle.db.knex('celery_outbox').update({ available_at: bundle.db.knex.fn.now() });
      await deferred;
      await stopsInTime(trying);
      await broker.start();
      expect(await taken()).to.deep.equal(early);
    });
  });
}

if (canRunPrivately()) {
  behavesWhileAway('RabbitMQ', async () => {
    const rabbitmq = await ownRabbitmq();
    // It is stopped when the run ends.
    return { ...rabbitmq, close: () => Promise.resolve() };
  });
}

if (redisBinary !== undefined) {
  behavesWhileAway('Redis', async () => {
    // It keeps what it has acknowledged.
    const redis = await startRedisProcess(['appendonly yes', 'appendfsync always', 'save ""']);
    return { ...redis, stop: () => redis.end('SIGTERM'), kill: () => redis.end('SIGKILL') };
  });
}
