import { expect } from 'chai';
import { chain, signature } from '../../lib';
import { eventually } from '../support/eventually';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

describe('a send that nobody awaits', () => {
  const bundle = useOutbox();
  const taskNames = async (): Promise<string[]> => (await bundle.db.rows()).map((row) => row.task_name);
  const unencodable = [new Map()];
  const UNFINISHED = 'ERR_CELERY_OUTBOX_SEND_UNFINISHED';

  afterEach(() => {
    expect(bundle.db.inUse(), 'connections in use').to.equal(0);
  });

  it('is stored with outbox.transaction()', async () => {
    const { outbox } = bundle;
    await outbox.transaction(() => {
      void outbox.celery.sendTask('a');
      void outbox.celery.sendTask('b', [], {}, { orderingKey: 'k', idempotencyKey: 'k' });
      void outbox.celery.applyAsync(chain(signature('c'), signature('d')));
      return Promise.resolve();
    });
    expect(await taskNames()).to.deep.equal(['a', 'b', 'c']);
  });

  it("is stored with the user's own transaction, in both of its forms", async () => {
    const { outbox, db } = bundle;
    await db.knex.transaction((trx) => {
      void outbox.celery.sendTask('callback', [], {}, { trx, orderingKey: 'k' });
      return Promise.resolve();
    });
    const trx = await db.knex.transaction();
    void outbox.celery.sendTask('by hand', [], {}, { trx, orderingKey: 'k' });
    await trx.commit();
    expect(await taskNames()).to.deep.equal(['callback', 'by hand']);
  });

  it('is stored with the savepoint that it was given, or that it was called in', async () => {
    const { outbox } = bundle;
    await outbox.transaction(async (trx) => {
      await trx.transaction((savepoint) => {
        void outbox.celery.sendTask('given', [], {}, { trx: savepoint, orderingKey: 'k' });
        return Promise.resolve();
      });
      await outbox.transaction(() => {
        void outbox.celery.sendTask('called in', [], {}, { orderingKey: 'k' });
        return Promise.resolve();
      });
    });
    expect(await taskNames()).to.deep.equal(['given', 'called in']);
  });

  it('is stored with the transaction that it was called in, not with a savepoint opened meanwhile', async () => {
    const { outbox } = bundle;
    await outbox.transaction(async () => {
      void outbox.celery.sendTask('outer', [], {}, { orderingKey: 'k' });
      await outbox.transaction(() => Promise.reject(new Error('undo'))).catch(() => undefined);
    });
    expect(await taskNames()).to.deep.equal(['outer']);
  });

  describe('fails the transaction', () => {
    it('of outbox.transaction(), if it fails', async () => {
      const { outbox } = bundle;
      const run = outbox.transaction(async (trx) => {
        await trx('orders').insert({ note: 'a' });
        await outbox.celery.sendTask('stored otherwise');
        void outbox.celery.sendTask('t', unencodable);
      });
      const error = await rejection(UNFINISHED, run);
      expect(error.message).to.include('args[0]');
      expect(error.cause).to.have.property('code', 'ERR_CELERY_OUTBOX_UNENCODABLE');
      expect(await taskNames()).to.deep.equal([]);
      expect(await bundle.db.knex('orders')).to.deep.equal([]);
    });

    it('also if it failed long before the end', async () => {
      const { outbox } = bundle;
      const run = outbox.transaction(async (trx) => {
        void outbox.celery.sendTask('t', unencodable);
        await trx.raw('SELECT 1');
        await outbox.celery.sendTask('stored otherwise');
      });
      await rejection(UNFINISHED, run);
      expect(await taskNames()).to.deep.equal([]);
    });

    it("of the user's own, in the form with a callback", async () => {
      const { outbox, db } = bundle;
      const run = db.knex.transaction(async (trx) => {
        await trx('orders').insert({ note: 'a' });
        void outbox.celery.sendTask('t', unencodable, {}, { trx });
      });
      await rejection(UNFINISHED, run);
      expect(await db.knex('orders')).to.deep.equal([]);
    });

    it("of the user's own, committed by hand, and rolls it back", async () => {
      const { outbox, db } = bundle;
      const trx = await db.knex.transaction();
      await trx('orders').insert({ note: 'a' });
      void outbox.celery.sendTask('t', unencodable, {}, { trx });
      await rejection(UNFINISHED, trx.commit());
      expect(trx.isCompleted()).to.equal(true);
      // What a careful caller does in its catch.
      await trx.rollback();
      expect(await db.knex('orders')).to.deep.equal([]);
    });

    it('that a savepoint was undone around it, rather than losing its task', async () => {
      const { outbox, db } = bundle;
      for (const options of [{}, { orderingKey: 'k' }, { idempotencyKey: 'k' }]) {
        const run = outbox.transaction(async (trx) => {
          void outbox.celery.sendTask('called outside', [], {}, options);
          await trx.transaction((savepoint) => savepoint.raw('SELECT 1 / 0')).catch(() => undefined);
        });
        const error = await rejection(UNFINISHED, run);
        expect(error.message).to.include('a savepoint was rolled back');
      }
      const own = await db.knex.transaction();
      void outbox.celery.sendTask('called outside', [], {}, { trx: own, orderingKey: 'k' });
      await own.transaction((savepoint) => savepoint.raw('SELECT 1 / 0')).catch(() => undefined);
      await rejection(UNFINISHED, own.commit());
      expect(await taskNames()).to.deep.equal([]);
    });

    it('that undid the savepoint it was called in, rather than storing its task alone', async () => {
      const { outbox } = bundle;
      const run = outbox.transaction(async (trx) => {
        await trx
          .transaction(() => {
            void outbox.celery.sendTask('called inside', [], {}, { orderingKey: 'k' });
            return Promise.reject(new Error('undo'));
          })
          .catch(() => undefined);
      });
      await run.catch((error: unknown) => {
        expect(error).to.have.property('code', UNFINISHED);
      });
      expect(await taskNames()).to.deep.equal([]);
    });
  });

  it('does no harm if it was awaited and its failure caught: the transaction stays usable', async () => {
    const { outbox, db } = bundle;
    await outbox.transaction(async () => {
      await rejection('ERR_CELERY_OUTBOX_UNENCODABLE', outbox.celery.sendTask('t', unencodable));
      await outbox.celery.sendTask('t', unencodable).catch(() => undefined);
      await outbox.celery.sendTask('after');
    });
    await db.knex.transaction(async (trx) => {
      await outbox.celery.sendTask('t', unencodable, {}, { trx }).catch(() => undefined);
      await outbox.celery.sendTask('after too', [], {}, { trx });
    });
    expect(await taskNames()).to.deep.equal(['after', 'after too']);
    expect(bundle.logged('celery_outbox_send_unobserved')).to.deep.equal([]);
  });

  describe('after its transaction is settled', () => {
    const SETTLED = 'ERR_CELERY_OUTBOX_TRANSACTION_SETTLED';

    it('is refused, whether that was committed or rolled back, and by whom', async () => {
      const { outbox, db } = bundle;
      const committed = await db.knex.transaction();
      await committed.commit();
      const rolledBack = await db.knex.transaction();
      await rolledBack.rollback();
      const ours = await outbox.transaction((trx) => Promise.resolve([trx]));
      for (const trx of [committed, rolledBack, ...ours]) {
        await rejection(SETTLED, outbox.celery.sendTask('t', [], {}, { trx }));
      }
      expect(await taskNames()).to.deep.equal([]);
    });

    it('is refused for a savepoint that is over, while the transaction goes on', async () => {
      const { outbox } = bundle;
      await outbox.transaction(async (trx) => {
        const savepoint = await trx.transaction();
        await savepoint.commit();
        await rejection(SETTLED, outbox.celery.sendTask('t', [], {}, { trx: savepoint }));
        await outbox.celery.sendTask('after');
      });
      expect(await taskNames()).to.deep.equal(['after']);
    });

    it('is logged, and does not end the process', async () => {
      const { outbox } = bundle;
      const unhandled: unknown[] = [];
      const note = (reason: unknown): void => void unhandled.push(reason);
      process.on('unhandledRejection', note);
      const [trx] = await outbox.transaction((open) => Promise.resolve([open]));
      void outbox.celery.sendTask('late', [], {}, { trx: trx });
      const [line] = await eventually(() => {
        const lines = bundle.logged('celery_outbox_send_unobserved');
        expect(lines).to.have.length(1);
        return lines;
      });
      process.off('unhandledRejection', note);
      expect(line).to.have.property('level', 'error');
      expect(line?.fields['error']).to.have.property('code', SETTLED);
      expect(unhandled).to.deep.equal([]);
    });
  });
});
