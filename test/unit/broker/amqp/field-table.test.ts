import { expect } from 'chai';
import { toFieldTable } from '../../../../lib/broker/amqp/field-table';
import type { JsonValue } from '../../../../lib/message/json-text';

const field = (value: JsonValue): unknown => toFieldTable({ value })['value'];

describe('toFieldTable', () => {
  it('leaves what is no number as it is', () => {
    for (const value of ['', 'é😀', true, false, null]) expect(field(value)).to.equal(value);
    expect(toFieldTable({})).to.deep.equal({});
    expect(field([])).to.deep.equal([]);
    expect(field({})).to.deep.equal({});
  });

  it('writes integers of 32 bits as int', () => {
    for (const value of [0, 1, -1, 127, 128, -129, 255, 300, 32_767, -32_769, 2 ** 31 - 1, -(2 ** 31)]) {
      expect(field(value)).to.deep.equal({ '!': 'int', value });
    }
  });

  it('writes wider ones as long', () => {
    for (const value of [2 ** 31, -(2 ** 31) - 1, 2 ** 40, Number.MAX_SAFE_INTEGER, 2n ** 63n - 1n, 5n]) {
      expect(field(value)).to.deep.equal({ '!': 'long', value });
    }
  });

  it('writes all others as double', () => {
    for (const value of [0.5, -1.25, 1e-7, 1e300, 2 ** 53, -0]) {
      expect(field(value)).to.deep.equal({ '!': 'double', value });
    }
  });

  it('goes into arrays and objects', () => {
    const int = (value: number): unknown => ({ '!': 'int', value });
    expect(toFieldTable({ timelimit: [300, null], deep: [{ list: [[1], 'x'], n: { m: 2 } }] })).to.deep.equal(
      {
        timelimit: [int(300), null],
        deep: [{ list: [[int(1)], 'x'], n: { m: int(2) } }],
      },
    );
  });

  it("does not let an object of the user's pass for one of amqplib's tags", () => {
    const table = field({ '!': 'timestamp', value: 'not a number' }) as Record<string, unknown>;
    expect(Object.hasOwn(table, '!')).to.equal(false);
    const written: Record<string, unknown> = {};
    // As amqplib does it.
    for (const key in table) written[key] = table[key];
    expect(written).to.deep.equal({ '!': 'timestamp', value: 'not a number' });
  });

  it('does not change what it was given', () => {
    const headers = { n: 1, list: [2, { m: 3 }] };
    toFieldTable(headers);
    expect(headers).to.deep.equal({ n: 1, list: [2, { m: 3 }] });
  });
});
