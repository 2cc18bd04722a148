import { expect } from 'chai';
import { createGate } from '../support/gate';
import { untilWaiting } from '../support/lock-waits';
import { useOutbox } from '../support/outbox';

describe('an ordering key', () => {
  const bundle = useOutbox();
  const send = (orderingKey: string, args: unknown[] = []): Promise<unknown> =>
    bundle.outbox.celery.sendTask('t', args, {}, { orderingKey });

  it('makes the order of ids the order of commits', async () => {
    const { outbox, db } = bundle;
    // The proof needs no clock. After its send a transaction looks which rows of the key are committed. If each of
    // them sees all ids below its own, then all of those were committed before it could commit itself.
    const seen: { own: string; visible: string[] }[] = [];
    const run = (index: number): Promise<void> =>
      outbox.transaction(async (trx) => {
        await trx.raw('SELECT pg_sleep(random() * 0.01)');
        await send('k', [index]);
        const own = trx('celery_outbox').whereRaw('args::text = ?', [`[${index}]`]);
        const [ownId] = (await own.pluck('id')) as string[];
        await trx.raw('SELECT pg_sleep(random() * 0.01)');
        const visible = (await trx('celery_outbox').orderBy('id').pluck('id')) as string[];
        seen.push({ own: ownId!, visible });
      });
    await Promise.all(Array.from({ length: 20 }, (_, index) => run(index)));
    const all = (await db.rows()).map((row) => row.id);
    expect(all).to.have.length(20);
    for (const { own, visible } of seen) expect(visible).to.deep.equal(all.slice(0, all.indexOf(own) + 1));
  });

  it('makes available_at rise with the id, also for a transaction that is older than the one before it', async () => {
    const { outbox, db } = bundle;
    const old = createGate();
    const sent = createGate();
    const older = outbox.transaction(async (trx) => {
      await trx.raw('SELECT 1');
      old.open();
      await sent.opened;
      await send('k');
    });
    await old.opened;
    await outbox.transaction(() => send('k'));
    sent.open();
    await older;
    const falling = await db.knex.raw<{ rows: unknown[] }>(`
      SELECT FROM celery_outbox AS a JOIN celery_outbox AS b ON a.id < b.id AND a.available_at >= b.available_at`);
    expect(falling.rows).to.have.length(0);
  });

  it('lets a second transaction wait for the first, until it commits', async () => {
    expect(await secondOutlasts(() => Promise.resolve())).to.deep.equal(['first', 'second']);
  });

  it('is released by a rollback', async () => {
    expect(await secondOutlasts(() => Promise.reject(new Error('undo')))).to.deep.equal(['second']);
  });

  async function secondOutlasts(end: () => Promise<void>): Promise<unknown[]> {
    const { outbox, db } = bundle;
    const held = createGate();
    const mayEnd = createGate();
    const first = outbox.transaction(async () => {
      await send('k', ['first']);
      held.open();
      await mayEnd.opened;
      await end();
    });
    await held.opened;
    const second = outbox.transaction(() => send('k', ['second']));
    await untilWaiting(db.knex, 1);
    mayEnd.open();
    await first.catch(() => undefined);
    await second;
    return (await db.rows()).flatMap((row) => JSON.parse(row.args) as unknown[]);
  }

  it('does not wait for another key', async () => {
    const { outbox, db } = bundle;
    await outbox.transaction(async () => {
      await send('a');
      const trx = await db.knex.transaction();
      await trx.raw("SET LOCAL lock_timeout = '1s'");
      await outbox.celery.sendTask('t', [], {}, { trx, orderingKey: 'b' });
      await outbox.celery.sendTask('t', [], {}, { trx });
      await trx.commit();
    });
    expect((await db.rows()).map((row) => row.ordering_key)).to.deep.equal(['a', 'b', null]);
  });

  it('does not deadlock with several keys in another order', async () => {
    const { outbox, db } = bundle;
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
    const sendAll = (order: readonly string[]): Promise<unknown> =>
      outbox.transaction(() =>
        outbox.celery.sendTasks(order.map((orderingKey) => ({ name: 't', options: { orderingKey } }))),
      );
    const orders = Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? keys : keys.toReversed()));
    // All of them wait for a key in the middle, so that they are under way together when it is given back.
    const middle = await db.knex.transaction();
    await outbox.celery.sendTask('t', [], {}, { trx: middle, orderingKey: 'k10' });
    const calls = orders.map(sendAll);
    await untilWaiting(db.knex, orders.length);
    await middle.rollback();
    await Promise.all(calls);
    const rows = await db.rows();
    expect(rows).to.have.length(200);
    // One INSERT under all its locks: each call's rows stand together, in the order in which it gave them.
    for (let start = 0; start < rows.length; start += keys.length) {
      const order = rows.slice(start, start + keys.length).map((row) => row.ordering_key);
      expect([keys.join(), keys.toReversed().join()]).to.include(order.join());
    }
  });
});
