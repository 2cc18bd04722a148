import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { chain, chord, group } from '../../../lib';
import type { Interop } from '../interop';
import { add, echo, errback, fail, inspect, multiply, noteResult, tsum } from './signatures';

export function chordCases(interop: Interop): void {
  it('of three and a body', async () => {
    expect(await interop.apply(chord([add(1, 1), add(2, 2), add(3, 3)], tsum()))).to.equal(12);
  });

  it('whose body gets the results in order, however many', async () => {
    const header = Array.from({ length: 40 }, (_, index) => add(index, index));
    const { args } = (await interop.apply(chord(header, echo()))) as { args: unknown };
    expect(args).to.deep.equal([header.map((_, index) => 2 * index)]);
  });

  it('of one, and of none', async () => {
    expect(await interop.apply(chord([add(1, 1)], tsum()))).to.equal(2);
    expect(await interop.apply(chord([], tsum()))).to.equal(0);
  });

  it('with chains as members and a chain as body', async () => {
    const header = [chain(add(1, 1), add(1)), add(2, 2), chain(add(3, 3), multiply(2), add(1))];
    expect(await interop.apply(chord(header, chain(tsum(), multiply(2), add(1))))).to.equal(41);
  });

  it('with a group as body', async () => {
    const canvas = chord([add(1, 1), add(2, 2)], group([tsum(), echo()]));
    expect(await interop.apply(canvas)).to.deep.equal([6, { args: [[2, 4]], kwargs: {} }]);
  });

  it('with a group inside the header, its results reversed as Celery does', async () => {
    const canvas = chord([group([add(1, 1), add(2, 2)]), add(3, 3)], echo());
    expect(await interop.apply(canvas)).to.deep.equal({ args: [[4, 2, 6]], kwargs: {} });
  });

  it('whose body has the id, a callback and its own options', async () => {
    const [taskId, key, { otherQueue }] = [randomUUID(), randomUUID(), interop.names];
    const body = inspect().set({ queue: otherQueue, headers: { 'x-body': 200 }, timeLimit: 300 });
    const canvas = chord([add(1, 1), add(2, 2)], body).link(noteResult(key));
    const seen = (await interop.apply(canvas, { taskId })) as { delivery_info: unknown };
    expect(seen).to.deep.include({ id: taskId, args: [[2, 4]], 'x-body': 200, timelimit: [300, null] });
    expect(seen.delivery_info).to.include({ routing_key: otherQueue });
    expect(await interop.results.notes(key, 1)).to.have.length(1);
  });

  it('with the options of the call, in header and body', async () => {
    const [{ otherQueue }, headers] = [interop.names, { 'x-call': 200 }];
    const canvas = chord([inspect(), inspect()], inspect());
    const options = { queue: otherQueue, headers, expires: 600, rootId: 'root', timeLimit: 300 };
    const body = (await interop.apply(canvas, options)) as Seen;
    const [members] = body.args as [Seen[]];
    for (const seen of [body, ...members]) {
      expect(seen).to.deep.include({ 'x-call': 200, root_id: 'root', timelimit: [300, null] });
      expect(seen.expires).to.be.a('string');
      expect(seen.delivery_info).to.include({ routing_key: otherQueue });
    }
    expect(members.map((seen) => seen.group_index)).to.deep.equal([0, 1]);
    expect(new Set(members.map((seen) => seen.group)).size).to.equal(1);
  });

  it('whose body fails when a member does, with its errback', async () => {
    const canvas = chord([add(1, 1), fail(randomUUID())], tsum()).onError(errback());
    const { taskIds } = await interop.sender.apply(canvas);
    const { status, result } = await interop.results.outcome(taskIds[0]!);
    expect(status).to.equal('FAILURE');
    expect(result).to.include({ exc_type: 'ChordError' });
    const [note] = await interop.results.notes(taskIds[0]!, 1);
    expect(note).to.include({ failed: taskIds[0] });
  });
}

interface Seen {
  args: unknown[];
  expires: unknown;
  group: unknown;
  group_index: unknown;
  delivery_info: unknown;
}
