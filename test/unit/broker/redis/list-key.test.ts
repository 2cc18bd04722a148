import { expect } from 'chai';
import { createListKey } from '../../../../lib/broker/redis/list-key';

describe('createListKey', () => {
  const keysOf = (transport: Parameters<typeof createListKey>[0], priorities: number[]): string[] =>
    priorities.map((priority) => createListKey(transport)('q', priority));

  it('has the bare name for step 0 and a suffix for the others', () => {
    const transport = { globalKeyprefix: '', prioritySteps: [0, 3, 6, 9], sep: '\x06\x16' };
    expect(keysOf(transport, [0, 1, 2, 3, 5, 6, 8, 9])).to.deep.equal([
      ...['q', 'q', 'q', 'q\x06\x163', 'q\x06\x163', 'q\x06\x166', 'q\x06\x166', 'q\x06\x169'],
    ]);
  });

  it('clamps priorities to 0…9', () => {
    const transport = { globalKeyprefix: '', prioritySteps: [0, 3, 6, 9], sep: ':' };
    expect(keysOf(transport, [-1, 10, 255])).to.deep.equal(['q', 'q:9', 'q:9']);
  });

  it('knows other steps, separators and prefixes', () => {
    const transport = { globalKeyprefix: 'pre_', prioritySteps: [0, 1, 5], sep: ':' };
    expect(keysOf(transport, [0, 1, 4, 5, 9])).to.deep.equal([
      ...['pre_q', 'pre_q:1', 'pre_q:1', 'pre_q:5', 'pre_q:5'],
    ]);
    expect(keysOf({ ...transport, prioritySteps: [0] }, [0, 9])).to.deep.equal(['pre_q', 'pre_q']);
  });
});
