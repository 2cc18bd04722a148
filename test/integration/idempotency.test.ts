import { expect } from 'chai';
import { chain, createOutbox, group, signature, type SendOptions } from '../../lib';
import { createGate } from '../support/gate';
import { untilWaiting } from '../support/lock-waits';
import { recordingLogger } from '../support/log';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

describe('an idempotency key', () => {
  const bundle = useOutbox();
  const rowIds = async (): Promise<string[]> => (await bundle.db.rows()).map((row) => row.task_id);
  const send = async (key: string, options: SendOptions = {}, name = 't'): Promise<string> =>
    (await bundle.outbox.celery.sendTask(name, [], {}, { idempotencyKey: key, ...options })).taskId;
  const commit = (key: string, options?: SendOptions, name?: string): Promise<string> =>
    bundle.outbox.transaction(() => send(key, options, name));
  const undo = new Error('undo');

  it('stores one task for two sends in one transaction, and answers both with its id', async () => {
    const ids = await bundle.outbox.transaction(async () => [await send('k'), await send('k')]);
    expect(ids[1]).to.equal(ids[0]);
    expect(await rowIds()).to.deep.equal([ids[0]]);
  });

  it('stores one task for two sends at once in one transaction', async () => {
    const ids = await bundle.outbox.transaction(() => Promise.all([send('k'), send('k'), send('k')]));
    expect(new Set(ids).size).to.equal(1);
    expect(await rowIds()).to.deep.equal([ids[0]]);
  });

  it('stores the first of two in one sendTasks, and leaves the others alone', async () => {
    const results = await bundle.outbox.transaction(() =>
      bundle.outbox.celery.sendTasks([
        { name: 't', args: [0] },
        { name: 't', args: [1], options: { idempotencyKey: 'k' } },
        { name: 't', args: [2], options: { idempotencyKey: 'k' } },
        { name: 'u', args: [3], options: { idempotencyKey: 'k' } },
        { name: 't', args: [4] },
      ]),
    );
    const rows = await bundle.db.rows();
    expect(rows.map((row) => row.args)).to.deep.equal(['[0]', '[1]', '[3]', '[4]']);
    const [zero, one, three, four] = rows.map((row) => row.task_id);
    expect(results.map((result) => result.taskId)).to.deep.equal([zero, one, one, three, four]);
  });

  it('is remembered after COMMIT, also once the relay has deleted the row', async () => {
    const first = await commit('k');
    expect(await commit('k')).to.equal(first);
    await bundle.db.knex('celery_outbox').delete();
    expect(await commit('k')).to.equal(first);
    expect(await rowIds()).to.deep.equal([]);
  });

  it('is free again after a rollback', async () => {
    const failing = bundle.outbox.transaction(async () => {
      await send('k');
      throw undo;
    });
    await failing.catch(() => undefined);
    const second = await commit('k');
    expect(await rowIds()).to.deep.equal([second]);
  });

  it('is free again after its savepoint was rolled back', async () => {
    const second = await bundle.outbox.transaction(async () => {
      const inner = bundle.outbox.transaction(async () => {
        await send('k');
        throw undo;
      });
      await inner.catch(() => undefined);
      return send('k');
    });
    expect(await rowIds()).to.deep.equal([second]);
  });

  it('belongs to a task name', async () => {
    const ids = [await commit('k', {}, 'a'), await commit('k', {}, 'b')];
    expect(await rowIds()).to.deep.equal(ids);
  });

  it('answers with the holder, not with the task id given; and stores nothing for the same id', async () => {
    expect(await commit('k', { taskId: 'mine' })).to.equal('mine');
    expect(await commit('k', { taskId: 'other' })).to.equal('mine');
    expect(await commit('k', { taskId: 'mine' })).to.equal('mine');
    const both = await bundle.outbox.transaction(async () => [
      await send('l', { taskId: 'same' }),
      await send('l', { taskId: 'same' }),
    ]);
    expect(both).to.deep.equal(['same', 'same']);
    expect(await rowIds()).to.deep.equal(['mine', 'same']);
  });

  it('expires after the window', async () => {
    const outbox = createOutbox({
      knex: bundle.db.knex,
      logger: recordingLogger(),
      idempotencyWindowMs: 60_000,
    });
    const once = async (): Promise<string> =>
      (await outbox.celery.sendTask('t', [], {}, { idempotencyKey: 'k' })).taskId;
    const age = (seconds: number): Promise<unknown> =>
      bundle.db.knex('celery_outbox_idempotency').update({
        created_at: bundle.db.knex.raw(`now() - interval '${seconds} seconds'`),
      });
    const first = await once();
    await age(55);
    expect(await once(), 'within the window').to.equal(first);
    await age(61);
    const second = await once();
    expect(second, 'past the window').not.to.equal(first);
    expect(await once(), 'within the new window').to.equal(second);
    expect(await rowIds()).to.deep.equal([first, second]);
  });

  it('may have the largest window there is', async () => {
    const idempotencyWindowMs = Number.MAX_SAFE_INTEGER;
    const outbox = createOutbox({ knex: bundle.db.knex, logger: recordingLogger(), idempotencyWindowMs });
    const results = await outbox.transaction(async () => [
      await outbox.celery.sendTask('t', [], {}, { idempotencyKey: 'k' }),
      await outbox.celery.sendTask('t', [], {}, { idempotencyKey: 'k' }),
    ]);
    expect(results[1]?.taskId).to.equal(results[0]?.taskId);
  });

  describe('in two transactions at once', () => {
    /** Starts a transaction that has used the key and ends when told to, and a second one that has to wait for it. */
    async function race(end: () => Promise<void>): Promise<[string | undefined, string]> {
      const used = createGate();
      const mayEnd = createGate();
      const first = bundle.outbox.transaction(async () => {
        const id = await send('k');
        used.open();
        await mayEnd.opened;
        await end();
        return id;
      });
      await used.opened;
      const second = commit('k');
      await untilWaiting(bundle.db.knex, 1);
      mayEnd.open();
      return [await first.catch(() => undefined), await second];
    }

    it('lets the second wait, and answers it with the first when that commits', async () => {
      const [first, second] = await race(() => Promise.resolve());
      expect(second).to.equal(first);
      expect(await rowIds()).to.deep.equal([first]);
    });

    it('lets the second wait, and stores it when the first rolls back', async () => {
      const [first, second] = await race(() => Promise.reject(undo));
      expect(first).to.equal(undefined);
      expect(await rowIds()).to.deep.equal([second]);
    });

    it('lets nobody wait once it is known: repeated requests do not queue up', async () => {
      const known = await commit('k');
      const repeated = createGate();
      const mayEnd = createGate();
      const first = bundle.outbox.transaction(async () => {
        const id = await send('k');
        repeated.open();
        await mayEnd.opened;
        return id;
      });
      await repeated.opened;
      const second = await bundle.outbox.transaction(async (trx) => {
        await trx.raw("SET LOCAL lock_timeout = '1s'");
        return send('k');
      });
      mayEnd.open();
      expect([await first, second]).to.deep.equal([known, known]);
    });
  });

  it('stores one task for 20 transactions at once, and gives all of them its id', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => commit('k')));
    expect(new Set(ids).size).to.equal(1);
    expect(await rowIds()).to.deep.equal([ids[0]]);
  });

  it('does not deadlock with the same keys in another order', async () => {
    const sendAll = (keys: readonly string[]): Promise<unknown> =>
      bundle.outbox.transaction(() =>
        bundle.outbox.celery.sendTasks(keys.map((key) => ({ name: 't', options: { idempotencyKey: key } }))),
      );
    // Both wait for the key in the middle. Without one order for all, each would have one end and then want the other.
    const middle = await bundle.db.knex.transaction();
    await send('b', { trx: middle });
    const calls = [sendAll(['a', 'b', 'c']), sendAll(['c', 'b', 'a'])];
    await untilWaiting(bundle.db.knex, 2);
    await middle.rollback();
    await Promise.all(calls);
    expect(await rowIds()).to.have.length(3);
  });

  describe('of a canvas', () => {
    const options = { idempotencyKey: 'k' };

    it('answers a second chain with the result of the first', async () => {
      const apply = (): Promise<unknown> =>
        bundle.outbox.transaction(() =>
          bundle.outbox.celery.applyAsync(chain(signature('a'), signature('b')), options),
        );
      const [first, second] = [await apply(), await apply()] as { taskId: string }[];
      expect(second?.taskId).to.equal(first?.taskId);
      const [row, ...others] = await bundle.db.rows();
      expect(others).to.deep.equal([]);
      expect(row?.task_id, 'the first task is another').not.to.equal(first?.taskId);
      expect(row?.options).to.include(first?.taskId);
    });

    it('is refused for what has more than one result', async () => {
      const canvases = [
        group([signature('a'), signature('b')]),
        group([signature('a')]),
        chain(signature('a'), group([signature('b'), signature('c')])),
      ];
      for (const canvas of canvases) {
        const error = await rejection(
          'ERR_CELERY_OUTBOX_INVALID_OPTION',
          bundle.outbox.celery.applyAsync(canvas, options),
        );
        expect(error.message).to.include('idempotencyKey');
      }
      expect(await rowIds()).to.deep.equal([]);
    });
  });
});
