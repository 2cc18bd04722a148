import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { chain, chord, group, signature } from '../../../lib';
import type { Interop } from '../interop';
import { add, echo, errback, inspect, multiply, noteResult, tsum } from './signatures';

export function callbackCases(interop: Interop): void {
  it('with the result of a task', async () => {
    const [once, again] = [randomUUID(), randomUUID()];
    const link = [add(10).set({ taskId: once }), echo('second').set({ taskId: again })];
    expect(await interop.run('interop.add', [1, 2], {}, { link })).to.equal(3);
    expect(await interop.results.result(once)).to.equal(13);
    expect(await interop.results.result(again)).to.deep.equal({ args: [3, 'second'], kwargs: {} });
  });

  it('with their own arguments alone, if they are immutable', async () => {
    const taskId = randomUUID();
    await interop.run('interop.add', [1, 2], {}, { link: add(5, 5).set({ taskId }).immutable() });
    expect(await interop.results.result(taskId)).to.equal(10);
  });

  it('with their own options and lineage', async () => {
    const [parent, taskId, { otherQueue }] = [randomUUID(), randomUUID(), interop.names];
    const headers = { 'x-step': 200 };
    const link = inspect().set({ taskId, queue: otherQueue, timeLimit: 300, shadow: 'shade', headers });
    await interop.run('interop.add', [1, 2], {}, { taskId: parent, link });
    const seen = (await interop.results.result(taskId)) as { delivery_info: unknown };
    expect(seen).to.deep.include({ args: [3], root_id: parent, parent_id: parent, timelimit: [300, null] });
    expect(seen).to.include({ shadow: 'shade', 'x-step': 200 });
    expect(seen.delivery_info).to.include({ routing_key: otherQueue });
  });

  it('that are a chain', async () => {
    const key = randomUUID();
    await interop.run('interop.add', [1, 2], {}, { link: chain(add(1), multiply(10), noteResult(key)) });
    expect(await interop.results.notes(key, 1)).to.deep.equal([40]);
  });

  it('that are a group, a chord, or a chain that begins with a group', async () => {
    const [ofGroup, ofChord, ofChain] = [randomUUID(), randomUUID(), randomUUID()];
    const link = [
      group([noteResult(ofGroup), chain(add(1), noteResult(ofGroup))]),
      chord([add(1), add(2)], chain(tsum(), noteResult(ofChord))),
      chain(group([add(3), add(4)]), tsum(), noteResult(ofChain)),
    ];
    await interop.run('interop.add', [1, 2], {}, { link });
    expect(await interop.results.notes(ofGroup, 2)).to.have.members([3, 4]);
    expect(await interop.results.notes(ofChord, 1)).to.deep.equal([9]);
    expect(await interop.results.notes(ofChain, 1)).to.deep.equal([13]);
  });

  it('of their own', async () => {
    const key = randomUUID();
    await interop.run('interop.add', [1, 2], {}, { link: add(1).link(noteResult(key)) });
    expect(await interop.results.notes(key, 1)).to.deep.equal([4]);
  });

  it('for a failed task: as a task with its id, or in place with the exception', async () => {
    const linkError = [errback(), signature('interop.inline_errback')];
    const [taskId] = await interop.sender.send([
      { name: 'interop.fail', args: ['no'], options: { linkError, link: add(1) } },
    ]);
    const { status, result } = await interop.results.outcome(taskId!);
    expect(status).to.equal('FAILURE');
    expect(result).to.deep.include({ exc_type: 'ValueError', exc_message: ['no'] });
    expect(await interop.results.notes(taskId!, 2)).to.have.deep.members([
      { failed: taskId, parent: taskId, root: taskId },
      { failed: taskId, exception: "ValueError('no')", traceback: true },
    ]);
  });
}
