import { expect } from 'chai';
import { PushPlan } from '../../../../lib/broker/redis/push-plan';

describe('PushPlan', () => {
  it('keeps the order within a list and puts lists in one command each', () => {
    const plan = new PushPlan();
    for (const [index, key] of ['a', 'b', 'a', 'c', 'b', 'a'].entries()) plan.add(key, `v${index}`, index);
    expect(plan.pushes).to.deep.equal([
      { key: 'a', values: ['v0', 'v2', 'v5'], indexes: [0, 2, 5] },
      { key: 'b', values: ['v1', 'v4'], indexes: [1, 4] },
      { key: 'c', values: ['v3'], indexes: [3] },
    ]);
  });

  it('bounds the values of a command', () => {
    const plan = new PushPlan();
    for (let index = 0; index < 1001; index += 1) plan.add('a', String(index), index);
    expect(plan.pushes.map(({ values }) => values.length)).to.deep.equal([500, 500, 1]);
    expect(plan.pushes.flatMap(({ indexes }) => indexes)).to.deep.equal([...Array(1001).keys()]);
  });

  it('bounds the size of a command, unless one value alone is larger', () => {
    const plan = new PushPlan();
    const kib = 'x'.repeat(1024);
    for (const [index, size] of [600, 400, 100, 5000, 1].entries()) plan.add('a', kib.repeat(size), index);
    expect(plan.pushes.map(({ indexes }) => indexes)).to.deep.equal([[0, 1], [2], [3], [4]]);
  });
});
