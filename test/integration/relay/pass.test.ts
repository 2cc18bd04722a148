import { expect } from 'chai';
import { currentLogContext } from '../../../lib';
import { PUBLISHED } from '../../../lib/testing';
import { recordingLogger } from '../../support/log';
import { useRelay } from '../../support/relay';
import { insertTasks } from '../../support/relay-rows';
import { fault, outage } from '../../support/scripted-broker';

describe('a pass', () => {
  const bundle = useRelay();
  const nothing = { claimed: 0, published: 0, failed: 0, deferred: 0, deadLettered: 0, released: 0 };
  const due = (): Promise<unknown> =>
    bundle.db.knex('celery_outbox').update({ available_at: bundle.db.knex.fn.now() });

  it('hands every row over once, oldest first, and deletes it', async () => {
    const ids = await insertTasks(bundle.db.knex, 250);
    const relay = bundle.relay({ batchSize: 100 });
    const sent: string[] = [];
    relay.events.on('sent', ({ taskId }) => sent.push(taskId));
    expect(await relay.runOnce()).to.deep.equal({ ...nothing, claimed: 250, published: 250 });
    expect(bundle.broker.acknowledged).to.deep.equal(ids);
    expect(sent.sort()).to.deep.equal(ids.sort());
    expect(await bundle.db.rows()).to.deep.equal([]);
    expect(await relay.runOnce()).to.deep.equal(nothing);
  });

  it('backs off what failed, twice as long each time, and buries it in the end with its reason', async () => {
    const [bad] = await insertTasks(bundle.db.knex, 1);
    const others = await insertTasks(bundle.db.knex, 20);
    bundle.broker.answer = ({ taskId }) => (taskId === bad ? fault('no such queue') : PUBLISHED);
    const relay = bundle.relay({ maxRetries: 2, backoffMs: 10_000, maxBackoffMs: 15_000 });
    const events: unknown[] = [];
    relay.events.on('failed', (event) => events.push(['failed', event.retries, event.error]));
    relay.events.on('deadLettered', (event) => events.push(['dead', event.retries, event.reason]));
    const waits: number[] = [];
    for (let failures = 1; failures <= 2; failures += 1) {
      const summary = await relay.runOnce();
      expect(summary).to.include({ failed: 1, deadLettered: 0 });
      const { rows } = await bundle.db.knex.raw<{
        rows: { wait: number; retries: number; last_error: string }[];
      }>(
        'SELECT extract(epoch FROM available_at - now())::float8 AS wait, retries, last_error FROM celery_outbox',
      );
      expect(rows[0]).to.include({ retries: failures, last_error: 'no such queue' });
      waits.push(rows[0]!.wait);
      await due();
    }
    expect(waits[0]).to.be.within(9, 11);
    expect(waits[1]).to.be.within(13, 15);
    expect(bundle.broker.acknowledged).to.deep.equal(others);
    expect(await relay.runOnce()).to.include({ failed: 1, deadLettered: 1 });
    expect(await bundle.db.rows()).to.deep.equal([]);
    const [letter] = await bundle.db.knex<Record<string, unknown>>('celery_outbox_dead_letter');
    expect(letter).to.include({
      task_id: bad,
      retries: 3,
      failure_reason: 'ERR_CELERY_OUTBOX_UNROUTABLE',
      last_error: 'no such queue',
    });
    expect(events).to.deep.equal([
      ['failed', 1, 'no such queue'],
      ['failed', 2, 'no such queue'],
      ['dead', 3, 'ERR_CELERY_OUTBOX_UNROUTABLE'],
    ]);
    expect(bundle.logged('celery_outbox_send_failed')).to.have.length(2);
    expect(bundle.logged('celery_outbox_max_retries_exceeded')).to.have.length(1);
  });

  it('buries a row that cannot be read, and sends the others meanwhile', async () => {
    await insertTasks(bundle.db.knex, 1, { options: '{"no_such_option": 1}' });
    await insertTasks(bundle.db.knex, 1, { options: '[]' });
    await insertTasks(bundle.db.knex, 1, { args: '{"not": "a list"}' });
    const good = await insertTasks(bundle.db.knex, 3);
    await bundle.relay({ maxRetries: 0 }).runOnce();
    expect(bundle.broker.acknowledged).to.deep.equal(good);
    const letters = await bundle.db.knex('celery_outbox_dead_letter').orderBy('id');
    expect(letters.map((letter: { failure_reason: string }) => letter.failure_reason)).to.deep.equal(
      Array(3).fill('ERR_CELERY_OUTBOX_MESSAGE_INVALID'),
    );
    expect((letters[0] as { last_error: string }).last_error).to.match(/no_such_option/);
  });

  it('asks the retry policy of each task, and survives a bad one', async () => {
    await insertTasks(bundle.db.knex, 1, { task_name: 'never' });
    await insertTasks(bundle.db.knex, 1, { task_name: 'broken' });
    await insertTasks(bundle.db.knex, 1, { task_name: 'wrong' });
    bundle.broker.answer = () => fault();
    const relay = bundle.relay({
      retryPolicy: (taskName) => {
        if (taskName === 'broken') throw new Error('no policy');
        return taskName === 'never' ? { maxRetries: 0 } : { maxRetries: -1 };
      },
    });
    expect(await relay.runOnce()).to.include({ failed: 3, deadLettered: 1 });
    expect(await bundle.db.knex('celery_outbox_dead_letter').pluck('task_name')).to.deep.equal(['never']);
    expect(
      bundle.logged('celery_outbox_retry_policy_failed').map(({ fields }) => fields['task_name']),
    ).to.include.members(['broken', 'wrong']);
  });

  it('defers for an outage, without a retry, and tries no more than two batches', async () => {
    await insertTasks(bundle.db.knex, 50);
    bundle.broker.answer = () => outage('nobody there');
    const relay = bundle.relay({
      batchSize: 10,
      batchesInFlight: 1,
      outageCooldownMs: 60_000,
      maxRetries: 0,
    });
    let deferred = 0;
    relay.events.on('deferred', () => (deferred += 1));
    expect(await relay.runOnce()).to.deep.equal({ ...nothing, claimed: 20, deferred: 20 });
    expect(deferred).to.equal(20);
    expect(relay.status().isBreakerOpen).to.equal(true);
    expect(bundle.logged('celery_outbox_breaker_trip')).to.have.length(1);
    expect(await relay.runOnce()).to.deep.equal(nothing);
    const rows = await bundle.db.knex('celery_outbox').orderBy('id');
    expect(rows.filter((row: { last_error: string }) => row.last_error === 'nobody there')).to.have.length(
      20,
    );
    for (const row of rows) expect(row).to.include({ retries: 0, claimed_by: null });
    expect(await bundle.db.knex('celery_outbox_dead_letter')).to.deep.equal([]);
  });

  it('goes on when the broker is back after the cooldown', async () => {
    const ids = await insertTasks(bundle.db.knex, 30);
    bundle.broker.answer = () => outage();
    const relay = bundle.relay({ batchSize: 10, batchesInFlight: 3, outageCooldownMs: 50 });
    await relay.runOnce();
    bundle.broker.answer = () => PUBLISHED;
    await new Promise<void>((resolve) => {
      const ask = (): void => {
        void relay.runOnce().then(() => {
          if (bundle.broker.acknowledged.length < 30) setImmediate(ask);
          else resolve();
        });
      };
      ask();
    });
    expect(bundle.broker.acknowledged.sort()).to.deep.equal(ids.sort());
    expect(bundle.logged('celery_outbox_breaker_closed').length).to.be.at.least(1);
  });

  it('buries what has failed more often than a lowered limit allows, without sending it', async () => {
    const [worn] = await insertTasks(bundle.db.knex, 1, { retries: 4, ordering_key: 'k' });
    const [behind] = await insertTasks(bundle.db.knex, 1, { ordering_key: 'k' });
    expect(await bundle.relay({ maxRetries: 3 }).runOnce()).to.include({ deadLettered: 1, published: 1 });
    expect(bundle.broker.acknowledged).to.deep.equal([behind]);
    const [letter] = await bundle.db.knex<Record<string, unknown>>('celery_outbox_dead_letter');
    expect(letter).to.include({ task_id: worn, failure_reason: 'max_retries_exceeded', retries: 4 });
  });

  it('keeps what was sent in the archive, if it is told to', async () => {
    const ids = await insertTasks(bundle.db.knex, 3);
    await bundle.relay({ cleanUpAfter: 'never' }).runOnce();
    expect(await bundle.db.knex('celery_outbox_sent').orderBy('id').pluck('task_id')).to.deep.equal(ids);
    expect(await bundle.db.rows()).to.deep.equal([]);
  });

  it('leaves paused tasks where they are, for every relay, until they are resumed', async () => {
    await insertTasks(bundle.db.knex, 2, { task_name: 'held' });
    const free = await insertTasks(bundle.db.knex, 2, { task_name: 'free' });
    const [one, other] = [bundle.relay(), bundle.relay()];
    await one.pause('held');
    expect(await other.runOnce()).to.include({ published: 2 });
    expect(bundle.broker.acknowledged).to.deep.equal(free);
    expect(await other.pauses()).to.have.length(1);
    expect(await other.resume('held')).to.equal(true);
    expect(await other.resume('held')).to.equal(false);
    await other.pause();
    expect(await one.runOnce()).to.deep.equal(nothing);
    await other.resume();
    expect(await one.runOnce()).to.include({ published: 2 });
  });

  it("logs what it says of a row in the row's own log context", async () => {
    await insertTasks(bundle.db.knex, 1, { log_context: '{"request_id": "r-1"}' });
    bundle.broker.answer = () => fault();
    const contexts: unknown[] = [];
    const logger = recordingLogger();
    logger.warn = () => contexts.push({ ...currentLogContext() });
    await bundle.relay({ logger }).runOnce();
    expect(contexts).to.deep.equal([{ request_id: 'r-1' }]);
  });

  it('sends the stored trace on, and counts rows of an unknown version without touching them', async () => {
    await insertTasks(bundle.db.knex, 1, { schema_version: 9 });
    await insertTasks(bundle.db.knex, 1, { trace_headers: '{"traceparent": "00-aa-bb-01"}' });
    await bundle.relay().runOnce();
    expect(bundle.broker.received.map(({ headers }) => headers['traceparent'])).to.deep.equal([
      '00-aa-bb-01',
    ]);
    expect((await bundle.db.rows()).map((row) => row.schema_version)).to.deep.equal([9]);
  });
});

describe('ordering keys in a pass', () => {
  const bundle = useRelay();

  it('are handed over one after another, the rest side by side', async () => {
    const [a, b] = [
      await insertTasks(bundle.db.knex, 4, { ordering_key: 'a' }),
      await insertTasks(bundle.db.knex, 3, { ordering_key: 'b' }),
    ];
    const free = await insertTasks(bundle.db.knex, 5);
    await bundle.relay().runOnce();
    const { acknowledged } = bundle.broker;
    expect(acknowledged.filter((id) => a.includes(id))).to.deep.equal(a);
    expect(acknowledged.filter((id) => b.includes(id))).to.deep.equal(b);
    expect(acknowledged.slice(0, 7)).to.include.members(free);
    expect(bundle.broker.calls).to.deep.equal([5, 2, 2, 2, 1]);
  });

  it('hold back what is behind a failure, until it is sent', async () => {
    const a = await insertTasks(bundle.db.knex, 3, { ordering_key: 'a' });
    const b = await insertTasks(bundle.db.knex, 2, { ordering_key: 'b' });
    bundle.broker.answer = ({ taskId }, attempt) => (taskId === a[1] && attempt === 1 ? fault() : PUBLISHED);
    const relay = bundle.relay();
    expect(await relay.runOnce()).to.include({ published: 3, failed: 1, released: 1 });
    expect(bundle.broker.acknowledged).to.have.members([a[0], ...b]);
    await bundle.db.knex('celery_outbox').update({ available_at: bundle.db.knex.fn.now() });
    await relay.runOnce();
    expect(bundle.broker.acknowledged.filter((id) => a.includes(id))).to.deep.equal(a);
  });

  for (const onDeadLetter of ['skip', 'block'] as const) {
    it(`${onDeadLetter === 'skip' ? 'go on' : 'stop'} behind a dead letter with onDeadLetter: ${onDeadLetter}`, async () => {
      const ids = await insertTasks(bundle.db.knex, 3, { ordering_key: 'a' });
      bundle.broker.answer = ({ taskId }) => (taskId === ids[0] ? fault() : PUBLISHED);
      const relay = bundle.relay({ onDeadLetter, maxRetries: 0 });
      await relay.runOnce();
      expect(bundle.broker.acknowledged).to.deep.equal(onDeadLetter === 'skip' ? ids.slice(1) : []);
      await bundle.db.knex('celery_outbox_dead_letter').delete();
      await relay.runOnce();
      expect(bundle.broker.acknowledged).to.deep.equal(ids.slice(1));
    });
  }

  it('keep their order across two relays, random failures and outages', async function () {
    this.timeout(60_000);
    const stored = new Map<string, string[]>();
    for (let key = 0; key < 20; key += 1) {
      stored.set(
        `k${String(key)}`,
        await insertTasks(bundle.db.knex, 30, { ordering_key: `k${String(key)}` }),
      );
    }
    bundle.broker.answer = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      const chance = Math.random();
      return chance < 0.1 ? fault() : chance < 0.12 ? outage() : PUBLISHED;
    };
    const options = { backoffMs: 1, maxBackoffMs: 5, maxRetries: 1_000, outageCooldownMs: 5, batchSize: 15 };
    const relays = [bundle.relay(options), bundle.relay(options)];
    while ((await bundle.db.rows()).length > 0) await Promise.all(relays.map((relay) => relay.runOnce()));
    for (const [, ids] of stored) {
      expect(bundle.broker.acknowledged.filter((id) => ids.includes(id))).to.deep.equal(ids);
    }
  });
});
