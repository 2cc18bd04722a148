import { expect } from 'chai';
import { chain, chord, group, withLogContext, type OutboxOptions } from '../../../lib';
import { useOutbox } from '../../support/outbox';
import type { Interop } from '../interop';
import { add, multiply, tsum } from './signatures';

const TRACE = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
const TIMEOUT_MS = 15_000;
const INTERVAL_MS = 5;

export function outboxCases(interop: Interop): void {
  const bundle = useOutbox((): Partial<OutboxOptions> => {
    const { brokerUrl: broker, backendUrl: backend, names } = interop;
    return {
      celery: { broker, backend, queue: names.queue },
      trace: () => TRACE,
      redact: ({ kwargs }) => ({ args: ['[hidden]'], kwargs }),
    };
  });

  it('with the result of a task', async () => {
    const { celery } = bundle.outbox;
    const result = await bundle.outbox.transaction(() => celery.sendTask('interop.add', [1], { y: 2 }));
    await interop.sender.relay(bundle.db);
    expect(await result.get(TIMEOUT_MS, INTERVAL_MS)).to.equal(3);
    expect(await result.status()).to.equal('SUCCESS');
  });

  it('with what a task failed with', async () => {
    const { celery } = bundle.outbox;
    const result = await bundle.outbox.transaction(() => celery.createTask('interop.fail').delay('no'));
    await interop.sender.relay(bundle.db);
    const error = await result.get(TIMEOUT_MS, INTERVAL_MS).catch((reason: unknown) => reason);
    expect(error).to.deep.include({ message: 'FAILURE', exc_type: 'ValueError', exc_message: ['no'] });
  });

  it('with the results of many', async () => {
    const calls = Array.from({ length: 20 }, (_, index) => ({ name: 'interop.add', args: [index, 1] }));
    const results = await bundle.outbox.transaction(() => bundle.outbox.celery.sendTasks(calls));
    await interop.sender.relay(bundle.db);
    const values = await Promise.all(results.map((result) => result.get(TIMEOUT_MS, INTERVAL_MS)));
    expect(values).to.deep.equal(calls.map((_, index) => index + 1));
  });

  it('with the result of a canvas', async () => {
    const { celery } = bundle.outbox;
    const header = [chain(add(1, 1), add(1)), add(2, 2), add(3, 3)];
    const [body, members] = await bundle.outbox.transaction(async () => [
      await celery.applyAsync(chord(header, chain(tsum(), multiply(2)))),
      await celery.applyAsync(group([add(4, 4), add(5, 5)])),
    ]);
    await interop.sender.relay(bundle.db);
    const results = [body, members].flat().map((result) => result.get(TIMEOUT_MS, INTERVAL_MS));
    expect(await Promise.all(results)).to.deep.equal([26, 8, 10]);
  });

  it('after values, options and context went through the database unchanged', async () => {
    const { celery } = bundle.outbox;
    const args = ['s3cret', '\u0000 é 🎉', { b: 1, a: [2.5] }];
    const options = { headers: { 'x-tenant': 'acme', n: 200 }, timeLimit: 300, priority: 2 };
    const [spelled, seen] = await withLogContext({ request_id: 'r-1' }, () =>
      bundle.outbox.transaction(async () => [
        await celery.sendTask('interop.spell', [2n ** 70n, -(2n ** 63n)]),
        await celery.sendTask('interop.inspect', args, { b: 1, a: 2 }, options),
      ]),
    );
    await interop.sender.relay(bundle.db);
    const spelling = '((1180591620717411303424, -9223372036854775808), {})';
    expect(await spelled.get(TIMEOUT_MS, INTERVAL_MS)).to.equal(spelling);
    expect(await seen.get(TIMEOUT_MS, INTERVAL_MS)).to.deep.include({
      ...{ args, kwargs: { b: 1, a: 2 }, 'x-tenant': 'acme', n: 200, timelimit: [300, null] },
      ...{ argsrepr: '["[hidden]"]', log_context: { request_id: 'r-1' }, ...TRACE },
    });
  });
}
