import { expect } from 'chai';
import type { CreatedEvent } from '../../lib';
import { eventually } from '../support/eventually';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

describe("the event 'created'", () => {
  const bundle = useOutbox();
  let created: string[];
  const note = (event: CreatedEvent): void => void created.push(event.taskName);
  const undo = (): Promise<never> => Promise.reject(new Error('undo'));

  beforeEach(() => {
    created = [];
    bundle.outbox.events.on('created', note);
  });

  it('comes once for each task, after COMMIT, with its id, name and ordering key', async () => {
    const { outbox } = bundle;
    const events: CreatedEvent[] = [];
    outbox.events.on('created', (event) => events.push(event));
    const result = await outbox.transaction(async () => {
      const sent = await outbox.celery.sendTask('a', [], {}, { orderingKey: 'k' });
      await outbox.celery.sendTasks([{ name: 'b' }, { name: 'c' }]);
      expect(events).to.deep.equal([]);
      return sent;
    });
    expect(events[0]).to.deep.equal({ taskId: result.taskId, taskName: 'a', orderingKey: 'k' });
    expect(created).to.deep.equal(['a', 'b', 'c']);
  });

  it('finds its row in the table', async () => {
    const { outbox, db } = bundle;
    let found: Promise<unknown[]> | undefined;
    outbox.events.on('created', ({ taskId }) => {
      found = db.knex('celery_outbox').where({ task_id: taskId }).pluck('id');
    });
    await outbox.transaction(() => outbox.celery.sendTask('a'));
    expect(await found).to.deep.equal(['1']);
  });

  it('comes for a send outside any transaction', async () => {
    await bundle.outbox.celery.sendTask('a');
    expect(created).to.deep.equal(['a']);
  });

  it('does not come for what was rolled back', async () => {
    const { outbox, db } = bundle;
    const attempts = [
      outbox.transaction(async () => {
        await outbox.celery.sendTask('thrown');
        await undo();
      }),
      db.knex.transaction(async (trx) => {
        await outbox.celery.sendTask('own, thrown', [], {}, { trx });
        await undo();
      }),
      outbox.transaction(async (trx) => {
        await outbox.celery.sendTask('COMMIT refused');
        await trx('orders').insert({ parent_id: 404 });
      }),
      outbox.transaction(async (trx) => {
        await outbox.celery.sendTask('swallowed');
        await trx.raw('SELECT 1 / 0').catch(() => undefined);
      }),
    ];
    for (const { status } of await Promise.allSettled(attempts)) expect(status).to.equal('rejected');
    const trx = await db.knex.transaction();
    await outbox.celery.sendTask('own, rolled back', [], {}, { trx });
    await trx.rollback();
    expect(created).to.deep.equal([]);
  });

  it("comes for the user's own transactions, but not when their COMMIT was refused or answered by ROLLBACK", async () => {
    const { outbox, db } = bundle;
    await db.knex.transaction((trx) => outbox.celery.sendTask('callback', [], {}, { trx }));
    const byHand = await db.knex.transaction();
    await outbox.celery.sendTask('by hand', [], {}, { trx: byHand });
    await byHand.commit();
    const aborted = await db.knex.transaction();
    await outbox.celery.sendTask('aborted', [], {}, { trx: aborted });
    await aborted.raw('SELECT 1 / 0').catch(() => undefined);
    await rejection('ERR_CELERY_OUTBOX_TRANSACTION_ABORTED', aborted.commit());
    await rejection(
      'ERR_CELERY_OUTBOX_TRANSACTION_ABORTED',
      db.knex.transaction(async (trx) => {
        await outbox.celery.sendTask('aborted', [], {}, { trx });
        await trx.raw('SELECT 1 / 0').catch(() => undefined);
      }),
    );
    const refused = await db.knex.transaction();
    await outbox.celery.sendTask('refused', [], {}, { trx: refused });
    await refused('orders').insert({ parent_id: 404 });
    expect(await refused.commit().catch((error: unknown) => error)).to.have.property('code', '23503');
    expect(created).to.deep.equal(['callback', 'by hand']);
    expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(created);
  });

  it('does not come for savepoints that were rolled back, however they were opened and nested', async () => {
    const { outbox, db } = bundle;
    const own = await db.knex.transaction();
    // The first send of all is within a savepoint that the outbox has not seen opening.
    await own
      .transaction(async (savepoint) => {
        await outbox.celery.sendTask('own, undone', [], {}, { trx: savepoint });
        await undo();
      })
      .catch(() => undefined);
    await outbox.celery.sendTask('own, kept', [], {}, { trx: own });
    await own.commit();
    await outbox.transaction(async (trx) => {
      await outbox.celery.sendTask('outer');
      await outbox
        .transaction(async () => {
          await outbox.celery.sendTask('undone');
          await outbox.transaction(() => outbox.celery.sendTask('released, then undone'));
          await undo();
        })
        .catch(() => undefined);
      await outbox.transaction(async () => {
        await outbox.celery.sendTask('kept');
        await outbox.transaction(undo).catch(() => undefined);
      });
      await trx.raw('SAVEPOINT s');
      await outbox.celery.sendTask('undone by SQL');
      await trx.raw('rollback to s');
    });
    expect(created).to.deep.equal(['own, kept', 'outer', 'kept']);
    expect((await db.rows()).map((row) => row.task_name)).to.deep.equal(created);
  });

  it('comes for a send that was under way when a savepoint was opened and rolled back', async () => {
    const { outbox } = bundle;
    await outbox.transaction(async () => {
      void outbox.celery.sendTask('outer');
      await outbox.transaction(undo).catch(() => undefined);
    });
    expect(created).to.deep.equal(['outer']);
  });

  it('does not come for the repetition of an idempotency key', async () => {
    const { outbox } = bundle;
    const send = (): Promise<unknown> => outbox.celery.sendTask('a', [], {}, { idempotencyKey: 'k' });
    await outbox.transaction(async () => [await send(), await send()]);
    await outbox.transaction(send);
    expect(created).to.deep.equal(['a']);
  });

  it('changes nothing when a listener throws or rejects: that is logged, and the others are told', async () => {
    const { outbox, db } = bundle;
    const failing: [string, () => unknown][] = [
      ['rejected', () => Promise.reject(new Error('rejected'))],
      [
        'thrown',
        () => {
          throw new Error('thrown');
        },
      ],
    ];
    for (const [, listener] of failing) outbox.events.on('created', listener);
    const last: string[] = [];
    outbox.events.on('created', (event) => last.push(event.taskName));
    expect(await outbox.transaction(() => outbox.celery.sendTask('a').then(() => 'done'))).to.equal('done');
    await eventually(() => {
      const lines = bundle.logged('celery_outbox_signal_error');
      expect(lines.map((line) => (line.fields['error'] as Error).message).sort()).to.deep.equal([
        'rejected',
        'thrown',
      ]);
      expect(lines[0]).to.have.property('level', 'error');
      expect(lines[0]?.fields['event']).to.equal('created');
    });
    expect([created, last]).to.deep.equal([['a'], ['a']]);
    expect(await db.rows()).to.have.length(1);
  });

  it('no longer comes to a listener that was taken off', async () => {
    const { outbox } = bundle;
    expect(outbox.events.off('created', note)).to.equal(outbox.events);
    outbox.events.off('created', note);
    await outbox.transaction(() => outbox.celery.sendTask('a'));
    expect(created).to.deep.equal([]);
  });

  it('is one of those that exist; no other name is accepted', () => {
    const { events } = bundle.outbox;
    for (const name of ['create', 'error', '', undefined]) {
      expect(() => events.on(name as never, () => undefined))
        .to.throw(/only: created/)
        .with.property('code', 'ERR_CELERY_OUTBOX_INVALID_OPTION');
    }
  });
});
