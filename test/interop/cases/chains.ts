import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { chain } from '../../../lib';
import type { Interop } from '../interop';
import { add, errback, fail, inspect, multiply, noteResult } from './signatures';

export function chainCases(interop: Interop): void {
  it('of three, each with the result of the one before', async () => {
    expect(await interop.apply(chain(add(1, 2), add(3), multiply(2)))).to.equal(12);
  });

  it('with steps that want no result', async () => {
    expect(await interop.apply(chain(add(1, 2), add(5, 5).immutable(), multiply(2)))).to.equal(20);
  });

  it('with chains inside', async () => {
    expect(await interop.apply(chain(chain(add(1, 2), add(3)), chain(multiply(2), add(1))))).to.equal(13);
  });

  it('whose last task has the id, and whose steps know each other', async () => {
    const [first, middle, last] = [randomUUID(), randomUUID(), randomUUID()];
    const canvas = chain(add(1, 2).set({ taskId: first }), add(3).set({ taskId: middle }), inspect());
    const seen = await interop.apply(canvas, { taskId: last });
    expect(seen).to.deep.include({ id: last, args: [6], root_id: first, parent_id: middle });
  });

  it('whose steps have their own options, all that there are', async () => {
    const { otherQueue } = interop.names;
    const step = inspect().set({
      ...{ queue: otherQueue, headers: { 'x-step': 200 }, priority: 2, expires: 600 },
      ...{ timeLimit: 200, softTimeLimit: 150.5, retries: 200, ignoreResult: false },
      ...{ shadow: 'shade', argsrepr: '(<a>)', kwargsrepr: '{<k>}', compression: 'zlib' },
      ...{ replyTo: 'reply', correlationId: 'correlation', deliveryMode: 1, timestamp: 1_900_000_000 },
      ...{ messageId: 'message', appId: 'app', type: 'kind' },
    });
    const seen = (await interop.apply(chain(add(1, 2), step))) as Record<string, unknown>;
    expect(seen).to.deep.include({
      ...{ args: [3], 'x-step': 200, timelimit: [200, 150.5], retries: 200, shadow: 'shade' },
      ...{ argsrepr: '(<a>)', kwargsrepr: '{<k>}', reply_to: 'reply', correlation_id: 'correlation' },
    });
    expect(seen['properties']).to.include({
      ...{ delivery_mode: 1, timestamp: 1_900_000_000, message_id: 'message', app_id: 'app', type: 'kind' },
      expiration: '600000',
    });
    expect(seen['delivery_info']).to.include({ routing_key: otherQueue, priority: 2 });
  });

  it('given as an option of their first task', async () => {
    const key = randomUUID();
    const steps = [add(3), multiply(2), noteResult(key)];
    expect(await interop.run('interop.add', [1, 2], {}, { chain: steps })).to.equal(3);
    expect(await interop.results.notes(key, 1)).to.deep.equal([12]);
  });

  it('with callbacks on the last step', async () => {
    const key = randomUUID();
    expect(await interop.apply(chain(add(1, 2), add(3)).link(noteResult(key)))).to.equal(6);
    expect(await interop.results.notes(key, 1)).to.deep.equal([6]);
  });

  it('that end at the step that failed, with its errback', async () => {
    const [failed, never] = [randomUUID(), randomUUID()];
    const canvas = chain(add(1, 2), fail(failed), noteResult(never)).onError(errback());
    const { taskIds } = await interop.sender.apply(canvas);
    const { status } = await interop.results.outcome(taskIds[0]!);
    expect(status, 'of the last step').to.equal('FAILURE');
    const [note] = await interop.results.notes(failed, 1);
    expect(note).to.include({ failed });
    expect(await interop.results.notes(never, 0)).to.deep.equal([]);
  });
}
