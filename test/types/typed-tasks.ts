// Compiled by `npm run typecheck`, never run: each expected error is a rule that users rely on.
import express, { type Request } from 'express';
import type { Knex } from 'knex';
import {
  chain,
  createOutbox,
  group,
  signature,
  type Outbox,
  type OutboxCelery,
  type OutboxResult,
} from '../../lib';

declare module '../../lib/message/task-registry' {
  interface TaskRegistry {
    'typed.process': (orderId: number, kw?: { notify: boolean }) => void;
    'typed.report': (kw: { month: string }) => void;
    'typed.add': (a: number, b?: number) => number;
    'typed.tags': (tags: string[]) => void;
  }
}

declare const celery: OutboxCelery;
declare const outbox: Outbox;
declare const trx: Knex.Transaction;

export const results: Promise<OutboxResult>[] = [
  celery.sendTask('typed.process', [1], { notify: true }, { countdown: 60, queue: 'orders', trx }),
  celery.sendTask('typed.process', [1]),
  celery.sendTask('typed.process', [1], undefined, 'a-task-id'),
  celery.sendTask('typed.report', [], { month: '2026-11' }),
  celery.sendTask('typed.add', [1]),
  celery.sendTask('typed.tags', [['a', 'b']]),
  celery.sendTask('unregistered'),
  celery.sendTask('unregistered', ['anything', 1n], { at: new Date() }),
  celery.createTask('typed.add').delay(1, 2),
  celery.createTask('typed.process').applyAsync([1], { notify: false }, { priority: 3 }),
];

// @ts-expect-error -- an id is a number
void celery.sendTask('typed.process', ['1']);
// @ts-expect-error -- args are missing
void celery.sendTask('typed.process');
// @ts-expect-error -- notify is a boolean
void celery.sendTask('typed.process', [1], { notify: 'yes' });
// @ts-expect-error -- no such keyword
void celery.sendTask('typed.process', [1], { notify: true, loud: true });
// @ts-expect-error -- kwargs are required
void celery.sendTask('typed.report', []);
// @ts-expect-error -- too many arguments
void celery.createTask('typed.add').delay(1, 2, 3);
// @ts-expect-error -- an unknown option
void celery.sendTask('unregistered', [], {}, { countDown: 1 });

void celery.sendTasks([
  { name: 'typed.add', args: [1, 2] },
  { name: 'unregistered', args: ['x'] },
]);
// @ts-expect-error -- checked in lists, too
void celery.sendTasks([{ name: 'typed.add', args: ['1'] }]);

export const one: Promise<OutboxResult> = celery.applyAsync(signature('typed.add', [1]));
export const many: Promise<OutboxResult[]> = celery.applyAsync(group([signature('a'), signature('b')]));
export const either: Promise<OutboxResult | OutboxResult[]> = celery.applyAsync(
  chain(signature('a'), signature('b')),
);

export const value: Promise<number> = outbox.transaction(async (inner) => {
  await inner('orders').insert({});
  return 1;
});

const app = express();
app.use(createOutbox({ knex: trx as Knex }).middleware({ when: (req: Request) => req.path !== '/health' }));
app.post('/orders', async (req, res) => {
  const [order] = await req.trx('orders').insert({}).returning<{ id: number }[]>('id');
  if (order !== undefined) await req.celery.sendTask('typed.process', [order.id]);
  res.status(201).json(order);
});
// @ts-expect-error -- knex is required
createOutbox({});
// @ts-expect-error -- an unknown option
outbox.middleware({ timeout: 5 });
