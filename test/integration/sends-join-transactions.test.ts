import { AsyncResource } from 'node:async_hooks';
import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createOutbox, type OutboxOptions } from '../../lib';
import { createDatabase } from '../support/database';
import { recordingLogger } from '../support/log';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

const failure = new Error('on purpose');
const fail = (): Promise<never> => Promise.reject(failure);

describe('a send joins its transaction', () => {
  const bundle = useOutbox();
  const taskNames = async (): Promise<string[]> => (await bundle.db.rows()).map((row) => row.task_name);

  it('of outbox.transaction(), with the rows around it', async () => {
    const { outbox, db } = bundle;
    const value = await outbox.transaction(async (trx) => {
      await trx('orders').insert({ note: 'a' });
      await outbox.celery.sendTask('t');
      expect(await taskNames(), 'not visible before COMMIT').to.deep.equal([]);
      return 42;
    });
    expect(value).to.equal(42);
    expect(await taskNames()).to.deep.equal(['t']);
    expect(await db.knex('orders')).to.have.length(1);
  });

  it('and is undone with it, whatever was thrown', async () => {
    const { outbox, db } = bundle;
    const run = outbox.transaction(async (trx) => {
      await trx('orders').insert({ note: 'a' });
      await outbox.celery.sendTask('t');
      throw failure;
    });
    expect(await run.catch((error: unknown) => error)).to.equal(failure);
    expect(await taskNames()).to.deep.equal([]);
    expect(await db.knex('orders')).to.deep.equal([]);
    expect(db.inUse()).to.equal(0);
  });

  it('across callbacks, timers and parallel work, each in its own', async () => {
    const { outbox } = bundle;
    const run = (name: string, end: () => Promise<void>): Promise<void> =>
      outbox.transaction(async () => {
        await new Promise((resolve) => setImmediate(resolve));
        await Promise.all([1, 2, 3].map((part) => outbox.celery.sendTask(`${name}.${part}`)));
        await end();
      });
    await Promise.allSettled([
      run('a', () => Promise.resolve()),
      run('b', fail),
      run('c', () => Promise.resolve()),
    ]);
    expect((await taskNames()).sort()).to.deep.equal(['a.1', 'a.2', 'a.3', 'c.1', 'c.2', 'c.3']);
  });

  it('given as trx, which wins over the one around', async () => {
    const { outbox, db } = bundle;
    const given = await db.knex.transaction();
    await outbox
      .transaction(async () => {
        await outbox.celery.sendTask('given', [], {}, { trx: given });
        await outbox.celery.sendTask('around');
        throw failure;
      })
      .catch(() => undefined);
    await given.commit();
    expect(await taskNames()).to.deep.equal(['given']);
  });

  it('given as trx of the callback form', async () => {
    const { outbox, db } = bundle;
    await db.knex.transaction((trx) => outbox.celery.sendTask('t', [], {}, { trx }));
    await db.knex
      .transaction(async (trx) => {
        await outbox.celery.sendTask('undone', [], {}, { trx });
        throw failure;
      })
      .catch(() => undefined);
    expect(await taskNames()).to.deep.equal(['t']);
  });

  it('of another Knex instance for the same database', async () => {
    const { outbox, db } = bundle;
    for (const connection of [db.url, { connectionString: db.url }]) {
      const other = createKnex({ client: 'pg', connection, pool: { min: 0, max: 1 } });
      try {
        await other.transaction((trx) => outbox.celery.sendTask('t', [], {}, { trx }));
      } finally {
        await other.destroy();
      }
    }
    expect(await taskNames()).to.deep.equal(['t', 't']);
  });

  it('not of another database, and not what is no transaction', async () => {
    const { outbox, db } = bundle;
    const elsewhere = await createDatabase();
    const foreign = await elsewhere.knex.transaction();
    const code = 'ERR_CELERY_OUTBOX_FOREIGN_TRANSACTION';
    const refused = async (trx: unknown): Promise<string> =>
      (await rejection(code, outbox.celery.sendTask('t', [], {}, { trx: trx as Knex.Transaction }))).message;
    try {
      expect(await refused(foreign)).to.include('got one of another');
      expect(await refused(db.knex)).to.include('a Knex instance');
      for (const garbage of [null, {}, 'trx', () => undefined]) await refused(garbage);
    } finally {
      await foreign.rollback();
      await elsewhere.close();
    }
    expect(await taskNames()).to.deep.equal([]);
  });

  it('and one only: two of them in one sendTasks are refused', async () => {
    const { outbox, db } = bundle;
    const [one, two] = await Promise.all([db.knex.transaction(), db.knex.transaction()]);
    const sending = outbox.celery.sendTasks([
      { name: 'a', options: { trx: one } },
      { name: 'b', options: { trx: two } },
    ]);
    await rejection('ERR_CELERY_OUTBOX_INVALID_OPTION', sending);
    await outbox.celery.sendTasks([
      { name: 'a', options: { trx: one } },
      { name: 'b', options: { trx: one } },
    ]);
    await Promise.all([one.commit(), two.commit()]);
    expect(await taskNames()).to.deep.equal(['a', 'b']);
  });

  describe('with savepoints', () => {
    it('of a nested outbox.transaction(): the inner is undone, the outer stored', async () => {
      const { outbox } = bundle;
      await outbox.transaction(async (outer) => {
        await outbox.celery.sendTask('outer');
        await outbox
          .transaction(async (inner) => {
            expect(inner).not.to.equal(outer);
            await outbox.celery.sendTask('inner');
            throw failure;
          })
          .catch(() => undefined);
        await outbox.transaction(() => outbox.celery.sendTask('inner, kept'));
      });
      expect(await taskNames()).to.deep.equal(['outer', 'inner, kept']);
    });

    it('of trx.transaction(), by outbox.celery and by trx', async () => {
      const { outbox } = bundle;
      await outbox.transaction(async (outer) => {
        for (const end of [fail, () => Promise.resolve()]) {
          await outer
            .transaction(async (inner) => {
              await outbox.celery.sendTask(`ambient ${end.name}`);
              await outbox.celery.sendTask(`given ${end.name}`, [], {}, { trx: inner });
              await end();
            })
            .catch(() => undefined);
        }
      });
      expect(await taskNames()).to.deep.equal(['ambient ', 'given ']);
    });

    it('of SQL', async () => {
      const { outbox } = bundle;
      await outbox.transaction(async (trx) => {
        await trx.raw('SAVEPOINT a');
        await outbox.celery.sendTask('undone');
        await trx.raw('ROLLBACK TO SAVEPOINT a');
        await outbox.celery.sendTask('stored');
        await trx.raw('ROLLBACK TO a');
        await outbox.celery.sendTask('stored after all');
        await trx.raw('RELEASE a');
      });
      expect(await taskNames()).to.deep.equal(['stored after all']);
    });

    it('and recovers with them from an error of the database', async () => {
      const { outbox } = bundle;
      await outbox.transaction(async (trx) => {
        await outbox.transaction((inner) => inner.raw('SELECT 1 / 0')).catch(() => undefined);
        await trx('orders').insert({ note: 'a' });
        await outbox.celery.sendTask('t');
      });
      expect(await taskNames()).to.deep.equal(['t']);
    });
  });

  describe('or has none', () => {
    const outboxWith = (options: Partial<OutboxOptions>): ReturnType<typeof createOutbox> =>
      createOutbox({ knex: bundle.db.knex, logger: recordingLogger(), ...options });

    it('and is stored in one of its own, with a warning that names the tasks', async () => {
      const { celery } = bundle.outbox;
      await celery.sendTasks([{ name: 'a' }, { name: 'b' }, { name: 'a' }]);
      expect(await taskNames()).to.deep.equal(['a', 'b', 'a']);
      const [line, ...others] = bundle.logged('celery_outbox_not_in_transaction');
      expect(line).to.deep.include({ level: 'warn', fields: { task_names: ['a', 'b'] } });
      expect(others).to.deep.equal([]);
      expect(bundle.db.inUse()).to.equal(0);
    });

    it('and is refused with strict, with nothing stored', async () => {
      const outbox = outboxWith({ strict: true });
      const error = await rejection(
        'ERR_CELERY_OUTBOX_NO_TRANSACTION',
        outbox.celery.sendTask('orders.process'),
      );
      expect(error.message).to.include('orders.process');
      await outbox.transaction(() => outbox.celery.sendTask('inside'));
      const trx = await bundle.db.knex.transaction();
      await outbox.celery.sendTask('given', [], {}, { trx });
      await trx.commit();
      expect(await taskNames()).to.deep.equal(['inside', 'given']);
    });

    it('as a context that outlived its transaction: a new outbox.transaction() there is a new one', async () => {
      const { outbox } = bundle;
      let later!: () => Promise<unknown>;
      await outbox.transaction(() => {
        const resource = outbox.transaction.bind(outbox);
        later = inThisContext(() => resource(() => outbox.celery.sendTask('later')));
        return Promise.resolve();
      });
      await later();
      expect(await taskNames()).to.deep.equal(['later']);
    });
  });
});

function inThisContext<T>(fn: () => T): () => T {
  return AsyncResource.bind(fn);
}
