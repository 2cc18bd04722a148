import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Interop } from '../interop';
import type { CallContext } from '../sender';

const TRACE = {
  traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  tracestate: 'vendor=1',
  'sentry-trace': `${'c'.repeat(32)}-${'d'.repeat(16)}-1`,
  baggage: 'sentry-environment=test,user=J%C3%BCrgen',
};
const LOG_CONTEXT = {
  request_id: 'r-1',
  tenant: 'Grüße 🎉',
  attempt: 200,
  flags: { beta: true, list: [300] },
};

// Integers of 128 to 32767 and -129 to -32768 are those that amqplib and py-amqp disagree about; -1 arrives as 255.
const INTEGERS = [
  0,
  1,
  -1,
  127,
  128,
  -128,
  -129,
  255,
  300,
  32_767,
  32_768,
  -32_768,
  -32_769,
  70_000,
  2 ** 31,
];
const CUSTOM = {
  'x-tenant': 'acme',
  text: 'é 🎉 "',
  empty: '',
  long: 'x'.repeat(2000),
  flag: true,
  none: null,
  fraction: -1.5,
  integers: INTEGERS,
  nested: { list: [200, [300, { deep: -200 }]], none: null },
  nothing: {},
  n200: 200,
  'n-200': -200,
};

export function headerCases(interop: Interop): void {
  async function seenWith(context: CallContext, headers?: object): Promise<Record<string, unknown>> {
    const options = headers === undefined ? {} : { headers: { ...headers } };
    const [taskId] = await interop.sender.send([{ name: 'interop.inspect', options }], context);
    return (await interop.results.result(taskId!)) as Record<string, unknown>;
  }

  it('of the call, at the top level and in request.headers', async () => {
    const seen = await seenWith({}, CUSTOM);
    expect(seen).to.deep.include(CUSTOM);
    expect(seen['headers']).to.deep.equal(CUSTOM);
  });

  it('of the trace, in both places', async () => {
    const seen = await seenWith({ traceHeaders: TRACE });
    expect(seen).to.deep.include(TRACE);
    expect(seen['headers']).to.deep.equal(TRACE);
  });

  it('of the log context, in both places', async () => {
    const seen = await seenWith({ logContext: LOG_CONTEXT });
    expect(seen['log_context']).to.deep.equal(LOG_CONTEXT);
    expect(seen['headers']).to.deep.equal({ log_context: LOG_CONTEXT });
  });

  it('of all three, those of the call first', async () => {
    const own = { 'x-tenant': 'acme', tracestate: 'mine=1' };
    const seen = await seenWith({ traceHeaders: TRACE, logContext: LOG_CONTEXT }, own);
    const all = { ...TRACE, log_context: LOG_CONTEXT, ...own };
    expect(seen).to.deep.include(all);
    expect(seen['headers']).to.deep.equal(all);
  });

  it('only if there are any', async () => {
    const seen = await seenWith({});
    expect(seen).to.not.have.any.keys('log_context', ...Object.keys(TRACE));
    expect(seen['headers'] ?? {}).to.deep.equal({});
  });

  it('with the widest integers that all workers read', async () => {
    for (const integer of [2n ** 31n - 1n, 2n ** 31n, -(2n ** 31n), 2n ** 53n + 1n, 2n ** 63n - 1n]) {
      const spelled = await interop.run('interop.spell_header', ['n'], {}, { headers: { n: integer } });
      expect(spelled).to.deep.equal([String(integer), String(integer)]);
    }
  });

  it('but not a log context that the broker cannot carry: the task runs without it', async () => {
    const seen = await seenWith({ traceHeaders: TRACE, logContext: { text: 'x'.repeat(200_000) } });
    expect(seen).to.deep.include(TRACE);
    if (interop.broker === 'rabbitmq') expect(seen).to.not.have.property('log_context');
    else expect(seen['log_context']).to.have.property('text');
  });

  it('once more after a retry', async () => {
    const key = randomUUID();
    const call = { name: 'interop.retry_once', args: [key], options: { headers: CUSTOM } };
    const [taskId] = await interop.sender.send([call], { traceHeaders: TRACE, logContext: LOG_CONTEXT });
    // Not its result: RETRY of the first attempt may be stored after SUCCESS of the second.
    const [first, second] = await interop.results.notes(key, 2);
    const all = { ...CUSTOM, ...TRACE, log_context: LOG_CONTEXT };
    expect(first).to.deep.include({ ...all, id: taskId, retries: 0 });
    // Celery 5.2 keeps of a retried task what request.headers has.
    expect(second).to.deep.include({ ...all, id: taskId, retries: 1 });
  });
}
