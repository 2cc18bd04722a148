import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { chain, chunks, group, signature, starmap, xmap } from '../../../lib';
import type { Interop } from '../interop';
import { add, inspect, multiply } from './signatures';

export function groupCases(interop: Interop): void {
  it('of three, with a result each', async () => {
    expect(await interop.apply(group([add(1, 1), add(2, 2), multiply(3, 3)]))).to.deep.equal([2, 4, 9]);
  });

  it('with groups and chains inside', async () => {
    const canvas = group([group([add(1, 1), add(2, 2)]), chain(add(1, 2), multiply(2)), add(3, 3)]);
    expect(await interop.apply(canvas)).to.deep.equal([2, 4, 6, 6]);
  });

  it('whose members know their group', async () => {
    const taskId = randomUUID();
    const seen = await interop.apply(group([inspect(), chain(add(1, 2), inspect())]), { taskId });
    expect(seen).to.have.length(2);
    for (const member of seen as unknown[]) expect(member).to.include({ group: taskId });
  });

  it('that end a chain, each member with the result', async () => {
    expect(await interop.apply(chain(add(1, 1), group([add(1), add(2), add(3)])))).to.deep.equal([3, 4, 5]);
  });

  it('of calls that one task maps', async () => {
    const sum = signature('interop.tsum');
    expect(await interop.apply(xmap(sum, [[1, 2], [3], []]))).to.deep.equal([3, 3, 0]);
    const pairs = Array.from({ length: 5 }, (_, index) => [index, index]);
    expect(await interop.apply(starmap(add(), pairs))).to.deep.equal([0, 2, 4, 6, 8]);
    expect(await interop.apply(chunks(add(), pairs, 2))).to.deep.equal([[0, 2], [4, 6], [8]]);
  });
}
