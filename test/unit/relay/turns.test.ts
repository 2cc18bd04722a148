import { expect } from 'chai';
import { Turns } from '../../../lib/relay/turns';
import type { ClaimedRow } from '../../../lib/store/relay/claim';
import { row } from './row';

const idsOf = (rows: readonly ClaimedRow[]): string[] => rows.map(({ id }) => id);
const a = { orderingKey: 'a' };
const b = { orderingKey: 'b' };

describe('Turns', () => {
  it('gives free rows at once, and those of a key one by one by their number', () => {
    const turns = new Turns([row('10', a), row('9', a), row('3'), row('4'), row('11', b)]);
    expect(idsOf(turns.next())).to.deep.equal(['3', '4', '9', '11']);
    expect(idsOf(turns.next())).to.deep.equal(['10']);
    expect(turns.next()).to.deep.equal([]);
    expect(turns.rest()).to.deep.equal([]);
  });

  it('holds back what is behind a row, and leaves other keys alone', () => {
    const rows = [row('1', a), row('2', a), row('3', a), row('4', b), row('5', b)];
    const turns = new Turns(rows);
    const [first] = turns.next();
    expect(idsOf(turns.hold(first!)).sort()).to.deep.equal(['2', '3']);
    expect(idsOf(turns.next())).to.deep.equal(['5']);
    expect(turns.hold(row('9'))).to.deep.equal([]);
    expect(turns.hold(first!)).to.deep.equal([]);
  });

  it('gives everything that had no turn back', () => {
    const turns = new Turns([row('1'), row('2', a), row('3', a)]);
    expect(idsOf(turns.rest()).sort()).to.deep.equal(['1', '2', '3']);
    expect(turns.next()).to.deep.equal([]);
  });
});
