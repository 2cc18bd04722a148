import { useOutbox } from '../support/outbox';
import { group, signature } from '../../lib';
describe('probe', () => {
  const it_ = useOutbox();
  async function show(title: string) { console.log(title, (await it_.db.rows()).map(r => r.task_name)); }
  it('unawaited before savepoint', async () => {
    const created: string[] = [];
    it_.outbox.events.on('created', e => created.push(e.taskName));
    await it_.outbox.transaction(async (trx) => {
      void it_.outbox.celery.sendTask('a');
      await trx.transaction(async (sp) => { await sp.raw('SELECT 1'); throw new Error('x'); }).catch(() => undefined);
    }).catch(e => console.log(e.code));
    await show('A'); console.log(created);
  });
  it('unawaited before savepoint, keyed', async () => {
    const created: string[] = [];
    it_.outbox.events.on('created', e => created.push(e.taskName));
    await it_.outbox.transaction(async (trx) => {
      void it_.outbox.celery.sendTask('a', [], {}, { orderingKey: 'k' });
      await trx.transaction(async (sp) => { await sp.raw('SELECT 1'); throw new Error('x'); }).catch(() => undefined);
    }).catch(e => console.log(e.code));
    await show('B'); console.log(created);
  });
  it('unawaited in nested', async () => {
    await it_.outbox.transaction(async () => {
      await it_.outbox.transaction(async () => { void it_.outbox.celery.sendTask('a'); });
    }).catch(e => console.log(e.code, e.message));
    await show('C');
  });
  it('user trx.commit with failing send', async () => {
    const trx = await it_.db.knex.transaction();
    void it_.outbox.celery.sendTask('a', [new Map()], {}, { trx });
    await trx.commit().catch(e => console.log(e.code));
    console.log('D in use', it_.db.inUse(), trx.isCompleted());
    if (!trx.isCompleted()) await trx.rollback();
  });
  it('null options', async () => {
    for (const f of [() => it_.outbox.celery.sendTask('a', [], {}, null as any), () => it_.outbox.celery.sendTasks([null] as any), () => it_.outbox.celery.sendTasks('x' as any), () => it_.outbox.celery.applyAsync(signature('x'), null as any), () => it_.outbox.celery.sendTask('a', [], {}, new Map([['queue', 'x']]) as any), () => it_.outbox.celery.applyAsync(signature('x'), new Map() as any)]) {
      try { const p = f(); await p.then(() => console.log('E resolved'), (e: any) => console.log('E rejected', e.code, e.message)); } catch (e: any) { console.log('E sync', e.code, e.message); }
    }
  });
  it('group of one', async () => {
    const key = { idempotencyKey: 'k' };
    await it_.outbox.transaction(async () => {
      const a = await it_.outbox.celery.applyAsync(group([signature('x')]), key);
      const b = await it_.outbox.celery.applyAsync(group([signature('x')]), key);
      console.log('F', a[0]!.taskId === b[0]!.taskId);
    }).catch(e => console.log('F', e.code, e.message));
  });
});
