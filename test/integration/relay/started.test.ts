import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import createKnex from 'knex';
import { createOutbox } from '../../../lib';
import { eventually } from '../../support/eventually';
import { recordingLogger } from '../../support/log';
import { rejection } from '../../support/rejection';
import { useRelay } from '../../support/relay';
import { insertTasks } from '../../support/relay-rows';
import { service } from '../../support/services';

describe('a relay that was started', function () {
  this.timeout(30_000);
  const bundle = useRelay();
  let redis: string;
  let name: string;
  before(async () => {
    redis = (await service('redis')).url;
  });
  beforeEach(() => {
    name = `outbox-${randomUUID()}`;
  });
  const emptied = (): Promise<void> =>
    eventually(async () => {
      expect(await bundle.db.rows()).to.deep.equal([]);
    }, 10_000);

  it('sends what is there, then what comes, without Redis', async () => {
    const first = await insertTasks(bundle.db.knex, 10);
    const relay = bundle.relay({ idleMs: 50 });
    await relay.start();
    expect(relay.status()).to.deep.include({ mode: 'unlocked', partitions: [0], isListening: true });
    await emptied();
    const second = await insertTasks(bundle.db.knex, 10);
    await emptied();
    expect(bundle.broker.acknowledged).to.deep.equal([...first, ...second]);
    expect(relay.status().lastPassAgeMs).to.be.within(0, 1_000);
  });

  it('is woken by a commit, not by its timer', async () => {
    const relay = bundle.relay({ idleMs: 60_000 });
    await relay.start();
    const outbox = createOutbox({ knex: bundle.db.knex, logger: recordingLogger() });
    try {
      for (let turn = 1; turn <= 3; turn += 1) {
        await outbox.transaction(() => outbox.celery.sendTask('tests.noop'));
        await eventually(() => {
          expect(bundle.broker.acknowledged).to.have.length(turn);
        });
      }
    } finally {
      await outbox.close();
    }
  });

  it('resumes at once what was paused', async () => {
    const relay = bundle.relay({ idleMs: 60_000 });
    await relay.pause('tests.noop');
    await insertTasks(bundle.db.knex, 3);
    await relay.start();
    await relay.resume('tests.noop');
    await emptied();
  });

  it('shares partitions with others, and takes all of them over when they stop', async () => {
    const options = { redis, name, partitions: 2, idleMs: 100, lockTtlMs: 1_000, batchSize: 50 };
    const [one, other] = [bundle.relay(options), bundle.relay(options)];
    await Promise.all([one.start(), other.start()]);
    await eventually(() => {
      expect([one, other].map((relay) => relay.status().partitions.length)).to.deep.equal([1, 1]);
    }, 10_000);
    const stored = await insertTasks(bundle.db.knex, 400);
    for (let key = 0; key < 10; key += 1) {
      stored.push(...(await insertTasks(bundle.db.knex, 10, { ordering_key: String(key) })));
    }
    await emptied();
    expect(bundle.broker.acknowledged.toSorted()).to.deep.equal(stored.toSorted());
    await one.stop();
    await eventually(() => {
      expect(other.status()).to.deep.include({
        mode: 'leading',
        partitions: [0, 1],
        leaders: [other.id, other.id],
      });
    });
  });

  it('takes what a leader leaves lying that has the lock and cannot work', async () => {
    const options = { redis, name, idleMs: 100, lockTtlMs: 1_000 };
    // It has the lock, and of another database: as a relay that does not reach its own.
    const knex = createKnex({
      client: 'pg',
      connection: 'postgres://127.0.0.1:1/none',
      log: { warn() {}, error() {} },
    });
    const leader = bundle.relay({ ...options, knex, notify: false });
    try {
      await leader.start();
      expect(leader.status().mode).to.equal('leading');
      const follower = bundle.relay(options);
      await follower.start();
      expect(follower.status().mode).to.equal('following');
      const stored = await insertTasks(bundle.db.knex, 10);
      await emptied();
      expect(bundle.broker.acknowledged.toSorted()).to.deep.equal(stored.toSorted());
      expect(follower.status().mode).to.equal('following');
    } finally {
      await leader.stop();
      await knex.destroy();
    }
  });

  it('reports rows of a newer version, and touches its liveness file', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'outbox-relay-'));
    try {
      const livenessFile = join(directory, 'alive');
      await insertTasks(bundle.db.knex, 2, { schema_version: 9 });
      await bundle.relay({ idleMs: 50, livenessFile }).start();
      await eventually(() => {
        expect(bundle.logged('celery_outbox_unknown_version').map(({ fields }) => fields)).to.deep.equal([
          { versions: [{ version: 9, count: 2 }] },
        ]);
      });
      const { mtimeMs } = await stat(livenessFile);
      await eventually(async () => {
        expect((await stat(livenessFile)).mtimeMs).to.be.above(mtimeMs);
      });
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('starts and stops once, and works no more after that', async () => {
    const relay = bundle.relay({ redis, name });
    await Promise.all([relay.start(), relay.start()]);
    await Promise.all([relay.stop(), relay.stop()]);
    expect(relay.status()).to.deep.include({ mode: 'stopped', partitions: [] });
    await rejection('ERR_CELERY_OUTBOX_CLOSED', relay.runOnce());
    await rejection('ERR_CELERY_OUTBOX_CLOSED', relay.start());
    expect(bundle.logged('celery_outbox_relay_shutdown')).to.have.length(1);
    const late = bundle.relay({ redis, name });
    await late.stop();
    await rejection('ERR_CELERY_OUTBOX_CLOSED', late.start());
  });

  it('can be stopped while it starts', async () => {
    const relay = bundle.relay({ redis, name });
    const starting = relay.start();
    await relay.stop();
    await starting;
    await insertTasks(bundle.db.knex, 1);
    expect(relay.status().mode).to.equal('stopped');
    expect(bundle.broker.acknowledged).to.deep.equal([]);
  });

  it('refuses a liveness file that cannot be written', async () => {
    const relay = bundle.relay({ livenessFile: '/no/such/directory/alive' });
    const error = await rejection('ERR_CELERY_OUTBOX_INVALID_OPTION', relay.start());
    expect(error.message).to.match(/livenessFile .* got "\/no\/such\/directory\/alive"/);
  });

  it('finishes what is in flight when it stops, and gives the rest back', async () => {
    const stored = await insertTasks(bundle.db.knex, 3, { ordering_key: 'k' });
    const { arrived, release } = bundle.broker.hold();
    const relay = bundle.relay({ idleMs: 50 });
    await relay.start();
    await arrived;
    const stopping = relay.stop();
    release();
    await stopping;
    expect(bundle.broker.acknowledged).to.deep.equal(stored.slice(0, 1));
    const rows = await bundle.db
      .knex<{ task_id: string; claimed_by: string | null }>('celery_outbox')
      .orderBy('id');
    expect(rows.map((row) => [row.task_id, row.claimed_by])).to.deep.equal(
      stored.slice(1).map((id) => [id, null]),
    );
  });

  it('gives up what hangs when the shutdown timeout is over', async () => {
    await insertTasks(bundle.db.knex, 1);
    const { arrived, release } = bundle.broker.hold();
    const relay = bundle.relay({ idleMs: 50, shutdownTimeoutMs: 100 });
    await relay.start();
    await arrived;
    await relay.stop();
    const [line] = bundle.logged('celery_outbox_relay_shutdown');
    expect(line).to.deep.include({ level: 'warn' }).and.nested.include({ 'fields.unfinished': true });
    release();
    await emptied();
  });
});
