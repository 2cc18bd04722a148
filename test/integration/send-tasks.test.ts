import { AsyncResult } from 'celery-node/dist/app/result';
import Client from 'celery-node/dist/app/client';
import Task from 'celery-node/dist/app/task';
import { expect } from 'chai';
import { chain, createOutbox, signature, type SendOptions, type TaskOptions } from '../../lib';
import { recordingLogger } from '../support/log';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('sending tasks', () => {
  const bundle = useOutbox();
  const send = (options: SendOptions): Promise<unknown> =>
    bundle.outbox.transaction(() => bundle.outbox.celery.sendTask('t', [], {}, options));

  async function statements(work: () => Promise<unknown>): Promise<string[]> {
    const seen: string[] = [];
    const note = ({ sql }: { sql: string }): void => void seen.push(sql);
    bundle.db.knex.on('query', note);
    await work();
    bundle.db.knex.off('query', note);
    return seen;
  }

  async function onlyRow(): Promise<Record<string, unknown>> {
    const rows = await bundle.db.rows();
    expect(rows).to.have.length(1);
    return rows[0] as unknown as Record<string, unknown>;
  }

  it("is celery-node's Client, with its Task and AsyncResult", async () => {
    const { celery } = bundle.outbox;
    expect(celery).to.be.instanceOf(Client);
    expect(celery.createTask('t')).to.be.instanceOf(Task);
    expect(celery.asyncResult('x')).to.be.instanceOf(AsyncResult);
    const sent: string[] = [];
    await bundle.outbox.transaction(async () => {
      const results = [
        await celery.sendTask('t'),
        ...(await celery.sendTasks([{ name: 't' }])),
        await celery.createTask('t').delay(),
        await celery.createTask('t').applyAsync(),
        await celery.applyAsync(signature('t')),
      ];
      for (const result of results) expect(result).to.be.instanceOf(AsyncResult);
      sent.push(...results.map((result) => result.taskId));
    });
    expect((await bundle.db.rows()).map((row) => row.task_id)).to.deep.equal(sent);
  });

  it('fills every other column with its default', async () => {
    const before = new Date();
    await bundle.outbox.transaction(() => bundle.outbox.celery.sendTask('orders.process'));
    const row = await onlyRow();
    expect(row).to.include({
      id: '1',
      task_name: 'orders.process',
      args: '[]',
      kwargs: '{}',
      options: '{}',
      redacted_args: null,
      redacted_kwargs: null,
      trace_headers: null,
      log_context: null,
      schema_version: 1,
      ordering_key: null,
      retries: 0,
      claimed_until: null,
      claimed_by: null,
      last_error: null,
    });
    expect(row['task_id']).to.match(UUID);
    expect(row['available_at']).to.be.within(new Date(before.getTime() - 1000), new Date());
    expect(row['created_at']).to.deep.equal(row['available_at']);
    expect(row['updated_at']).to.deep.equal(row['available_at']);
  });

  it('keeps args and kwargs, by sendTask, delay and applyAsync alike', async () => {
    const { celery } = bundle.outbox;
    await bundle.outbox.transaction(async () => {
      await celery.sendTask('t', [1, 'x'], { a: true }, { queue: 'q' });
      await celery.createTask('t').applyAsync([1, 'x'], { a: true }, { queue: 'q' });
      await celery.createTask('t').delay(1, 'x');
    });
    const rows = await bundle.db.rows();
    expect(rows.map(({ args, kwargs, options }) => [args, kwargs, options])).to.deep.equal([
      ['[1,"x"]', '{"a":true}', '{"queue":"q"}'],
      ['[1,"x"]', '{"a":true}', '{"queue":"q"}'],
      ['[1,"x"]', '{}', '{}'],
    ]);
  });

  it('takes a task id as fourth argument, as celery-node does', async () => {
    const result = await bundle.outbox.transaction(() => bundle.outbox.celery.sendTask('t', [], {}, 'my-id'));
    expect(result.taskId).to.equal('my-id');
    expect((await onlyRow())['task_id']).to.equal('my-id');
  });

  const link = { task: 'done', args: [], kwargs: {}, options: {}, subtask_type: null, immutable: false };
  const kept: [TaskOptions, object][] = [
    [{ eta: new Date('2030-01-02T03:04:05.678Z') }, { eta: '2030-01-02T03:04:05.678000+00:00' }],
    [{ eta: '2030-01-02T03:04:05.678901+01:00' }, { eta: '2030-01-02T02:04:05.678901+00:00' }],
    [{ expires: new Date('2030-01-02T00:00:00Z') }, { expires: '2030-01-02T00:00:00.000000+00:00' }],
    [{ queue: 'q' }, { queue: 'q' }],
    [
      { exchange: 'x', routingKey: 'r' },
      { exchange: 'x', routing_key: 'r' },
    ],
    [{ priority: 9 }, { priority: 9 }],
    [{ timeLimit: 1.5 }, { time_limit: 1.5 }],
    [{ softTimeLimit: 1 }, { soft_time_limit: 1 }],
    [{ retries: 2 }, { retries: 2 }],
    [{ shadow: 's' }, { shadow: 's' }],
    [{ headers: { tenant: 'a' } }, { headers: { tenant: 'a' } }],
    [{ link: signature('done') }, { link: [link] }],
    [{ linkError: [signature('done')] }, { link_error: [link] }],
    [{ chain: [signature('done')] }, { chain: [link] }],
    [{ chord: signature('done') }, { chord: link }],
    [
      { groupId: 'g', groupIndex: 3 },
      { group_id: 'g', group_index: 3 },
    ],
    [
      { rootId: 'r', parentId: 'p' },
      { root_id: 'r', parent_id: 'p' },
    ],
    [
      { replyTo: 'r', correlationId: 'c' },
      { reply_to: 'r', correlation_id: 'c' },
    ],
    [{ ignoreResult: true }, { ignore_result: true }],
    [{ taskId: 'id', queue: undefined }, {}],
  ];
  for (const [given, stored] of kept) {
    it(`stores ${Object.keys(given).join(' and ')} under Celery's names`, async () => {
      await send(given);
      expect(JSON.parse((await onlyRow())['options'] as string)).to.deep.equal(stored);
    });
  }

  it('makes countdown and relative expires absolute when the call is made', async () => {
    const before = Date.now();
    await send({ countdown: 60, expires: 90 });
    const { eta, expires } = JSON.parse((await onlyRow())['options'] as string) as Record<string, string>;
    expect(Date.parse(eta!)).to.be.within(before + 60_000, Date.now() + 60_000);
    expect(Date.parse(expires!) - Date.parse(eta!)).to.equal(30_000);
  });

  it('keeps a row back until holdUntil, to the microsecond, and not at all for a time that has passed', async () => {
    await send({ holdUntil: '2099-01-02T03:04:05.678901Z' });
    await send({ holdUntil: '2001-01-01T00:00:00Z' });
    const { rows } = await bundle.db.knex.raw<{ rows: { at: string; is_new: boolean }[] }>(`
      SELECT to_char(available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') AS at, available_at = created_at AS is_new
      FROM celery_outbox ORDER BY id`);
    expect(rows[0]?.at).to.equal('2099-01-02 03:04:05.678901');
    expect(rows[1]?.is_new).to.equal(true);
    expect((await bundle.db.rows()).map((row) => row.options)).to.deep.equal(['{}', '{}']);
  });

  it('stores the ordering key in its column', async () => {
    await send({ orderingKey: 'customer:1' });
    expect(await onlyRow()).to.include({ ordering_key: 'customer:1', options: '{}' });
  });

  it('stores 20,000 tasks in order with one INSERT', async () => {
    const { celery } = bundle.outbox;
    const calls = Array.from({ length: 20_000 }, (_, index) => ({
      name: `t${index % 3}`,
      args: [index, `"quoted" \\ {NULL}, ${index}`],
    }));
    const results: AsyncResult[] = [];
    const issued = await statements(() =>
      bundle.outbox.transaction(async () => {
        results.push(...(await celery.sendTasks(calls)));
      }),
    );
    expect(issued.map((sql) => sql.trim().split(/\s/)[0])).to.deep.equal(['BEGIN;', 'INSERT', 'COMMIT;']);
    const rows = await bundle.db.rows();
    expect(rows.map((row) => row.args)).to.deep.equal(calls.map((call) => JSON.stringify(call.args)));
    expect(rows.map((row) => row.task_name)).to.deep.equal(calls.map((call) => call.name));
    expect(rows.map((row) => row.task_id)).to.deep.equal(results.map((result) => result.taskId));
  });

  it('stores a mixture of options in one INSERT, and needs one statement more for each kind of key', async () => {
    const issued = await statements(() =>
      bundle.outbox.transaction(() =>
        bundle.outbox.celery.sendTasks([
          { name: 'a', args: [1], options: { taskId: 'first', queue: 'q' } },
          {
            name: 'b',
            kwargs: { x: null },
            options: { orderingKey: 'o', holdUntil: new Date('2099-01-01') },
          },
          { name: 'c', options: { idempotencyKey: 'i' } },
          { name: 'd' },
        ]),
      ),
    );
    expect(issued).to.have.length(5);
    const rows = await bundle.db.rows();
    expect(
      rows.map((row) => [row.task_name, row.args, row.kwargs, row.options, row.ordering_key]),
    ).to.deep.equal([
      ['a', '[1]', '{}', '{"queue":"q"}', null],
      ['b', '[]', '{"x":null}', '{}', 'o'],
      ['c', '[]', '{}', '{}', null],
      ['d', '[]', '{}', '{}', null],
    ]);
  });

  it('answers an empty array with an empty array, without a statement or a warning', async () => {
    const issued = await statements(async () => {
      expect(await bundle.outbox.celery.sendTasks([])).to.deep.equal([]);
    });
    expect(issued).to.deep.equal([]);
    expect(bundle.logged('celery_outbox_not_in_transaction')).to.deep.equal([]);
  });

  it('stores a chain as one row, and answers with the result of its last task', async () => {
    const result = await bundle.outbox.transaction(() =>
      bundle.outbox.celery.applyAsync(chain(signature('a'), signature('b')), { taskId: 'last' }),
    );
    expect(result).to.have.property('taskId', 'last');
    const row = await onlyRow();
    expect(row['task_name']).to.equal('a');
    expect(row['options']).to.include('"task_id":"last"');
  });

  describe('refuses, by a rejection and without a word of SQL,', () => {
    const wrong: [string, unknown[], string][] = [
      ['null as options', ['t', [], {}, null], 'ERR_CELERY_OUTBOX_INVALID_OPTION'],
      ['a Map as options', ['t', [], {}, new Map([['queue', 'q']])], 'ERR_CELERY_OUTBOX_INVALID_OPTION'],
      ['a number as options', ['t', [], {}, 42], 'ERR_CELERY_OUTBOX_INVALID_OPTION'],
      ['args that are no array', ['t', 'x'], 'ERR_CELERY_OUTBOX_INVALID_TASK'],
      ['kwargs that are no object', ['t', [], 'x'], 'ERR_CELERY_OUTBOX_INVALID_TASK'],
      ['no name', [], 'ERR_CELERY_OUTBOX_INVALID_TASK'],
      ['an empty task id', ['t', [], {}, ''], 'ERR_CELERY_OUTBOX_INVALID_OPTION'],
    ];
    for (const [what, call, code] of wrong) {
      it(what, async () => {
        const sendTask = bundle.outbox.celery.sendTask.bind(bundle.outbox.celery) as (
          ...args: unknown[]
        ) => Promise<unknown>;
        const issued = await statements(() => rejection(code as never, sendTask(...call)));
        expect(issued).to.deep.equal([]);
      });
    }

    for (const calls of ['x', null, [null], ['t'], [{ name: 't', arg: [1] }], { 0: { name: 't' } }]) {
      it(`sendTasks(${JSON.stringify(calls)})`, async () => {
        await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', bundle.outbox.celery.sendTasks(calls as never));
      });
    }

    it('applyAsync with null as options, or without a canvas', async () => {
      const { celery } = bundle.outbox;
      await rejection('ERR_CELERY_OUTBOX_INVALID_OPTION', celery.applyAsync(signature('t'), null as never));
      await rejection('ERR_CELERY_OUTBOX_INVALID_TASK', celery.applyAsync({} as never));
    });
  });

  it('refuses everything once the outbox is closed', async () => {
    const outbox = createOutbox({ knex: bundle.db.knex, logger: recordingLogger() });
    await outbox.close();
    await outbox.close();
    const code = 'ERR_CELERY_OUTBOX_CLOSED';
    expect((await rejection(code, outbox.celery.sendTask('t'))).statusCode).to.equal(503);
    await rejection(code, outbox.celery.sendTasks([]));
    await rejection(code, outbox.celery.applyAsync(signature('t')));
    await rejection(
      code,
      outbox.transaction(() => Promise.resolve()),
    );
    const trx = await bundle.db.knex.transaction();
    await rejection(code, outbox.celery.sendTask('t', [], {}, { trx }));
    await trx.rollback();
  });

  it('says so when the tables are not migrated', async () => {
    const outbox = createOutbox({ knex: bundle.db.knex, logger: recordingLogger(), tableName: 'missing' });
    const error = await rejection('ERR_CELERY_OUTBOX_STORE_FAILED', outbox.celery.sendTask('t'));
    expect(error.message).to.include('is "missing" migrated?').and.include('SQLSTATE 42P01');
    expect(error.message).not.to.include('INSERT');
    expect(bundle.db.inUse()).to.equal(0);
  });
});
