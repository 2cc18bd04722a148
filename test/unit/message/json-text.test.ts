import { expect } from 'chai';
import { encodeJson } from '../../../lib/message/json';
import { jsonMembers, parseJson } from '../../../lib/message/json-text';
import { createRandom } from '../../support/random';

const members = (text: string): [string, string][] => [...jsonMembers(text)];

describe('parseJson', () => {
  it('refuses what is not JSON', () => {
    for (const text of ['', '[1234567890123456', '{"a":1234567890123456', '1234567890123456,', '{"a" 1}']) {
      expect(() => parseJson(text), text).to.throw(SyntaxError);
    }
  });

  it('keeps integers that a number cannot hold', () => {
    const text = '[9007199254740991,9007199254740992,-9007199254740993,18446744073709551616]';
    expect(parseJson(text)).to.deep.equal([
      9007199254740991,
      9007199254740992n,
      -9007199254740993n,
      18446744073709551616n,
    ]);
    expect(parseJson(`{"a":{"b":[${'9'.repeat(400)}]}}`)).to.deep.equal({ a: { b: [10n ** 400n - 1n] } });
    expect(parseJson(' 9007199254740993 ')).to.equal(9007199254740993n);
  });

  it('leaves floats and strings of many digits alone', () => {
    expect(
      parseJson('[0.12345678901234567,1234567890123456789e3,1e400,-0.0,12345678901234567.0]'),
    ).to.deep.equal([0.12345678901234567, 1234567890123456789e3, Infinity, -0, 12345678901234568]);
    expect(parseJson('{"9007199254740993":"9007199254740993"}')).to.deep.equal({
      '9007199254740993': '9007199254740993',
    });
  });

  it('reads scalars, empty containers and space anywhere', () => {
    // Sixteen digits send it the exact way round.
    for (const text of [
      'null',
      'true',
      'false',
      '""',
      '[]',
      '{}',
      '[ ]',
      '{\n}',
      ' [ [ ] , { } ] ',
      '{"a" : [ ]\t}',
    ]) {
      const exact = parseJson(`[${text},1234567890123456]`) as unknown[];
      expect(exact[0], text).to.deep.equal(JSON.parse(text));
      expect(parseJson(text), text).to.deep.equal(JSON.parse(text));
    }
  });

  it('keeps a member named __proto__', () => {
    for (const text of ['{"__proto__":{"a":1}}', '{"__proto__":{"a":9007199254740993}}']) {
      const value = parseJson(text) as object;
      expect(Object.keys(value)).to.deep.equal(['__proto__']);
      expect(Object.getPrototypeOf(value)).to.equal(Object.prototype);
    }
  });

  it('reads the last of two members of one name, as JSON.parse', () => {
    expect(parseJson('{"a":1,"a":9007199254740993}')).to.deep.equal({ a: 9007199254740993n });
  });

  it('throws for what is no JSON', () => {
    for (const text of ['', 'x', '{"a":}', '[1', '1234567890123456x', '{"a":1234567890123456x}']) {
      expect(() => parseJson(text), text).to.throw(SyntaxError);
    }
  });
});

describe('jsonMembers', () => {
  it('gives each member as it was written', () => {
    expect(members('{"a":1,"b":[1, 2],"c":{"d":"}"},"e":"x","f":null,"g":-1.50e+3}')).to.deep.equal([
      ['a', '1'],
      ['b', '[1, 2]'],
      ['c', '{"d":"}"}'],
      ['e', '"x"'],
      ['f', 'null'],
      ['g', '-1.50e+3'],
    ]);
    expect(members('{}')).to.deep.equal([]);
    expect(members(' \n{ \t} ')).to.deep.equal([]);
  });

  it('allows space wherever JSON does', () => {
    expect(members(' \r\n{ "a" :\t1 , "b"\n:\n[ ] ,"c":{ "d" : 2 } } ')).to.deep.equal([
      ['a', '1'],
      ['b', '[ ]'],
      ['c', '{ "d" : 2 }'],
    ]);
  });

  it('is not led astray by quotes, brackets and backslashes in strings', () => {
    const hostile = [
      '"',
      '\\',
      '\\"',
      '"\\',
      '\\\\"',
      '}',
      ']',
      '{',
      '[',
      ',',
      ':',
      '","x":1,"',
      '\\"}]',
      '\n\t\0',
      '\u2028',
      'é😀',
      '\ud800',
      '[9007199254740993]',
    ];
    const object = Object.fromEntries(
      hostile.map((text, index) => [`${text}${String(index)}`, [text, { [text]: text }]]),
    );
    const expected = Object.entries(object).map(([key, value]) => [key, JSON.stringify(value)]);
    expect(members(JSON.stringify(object))).to.deep.equal(expected);
    expect(members('{"\\u0061\\"\\\\":"\\\\\\"","b":1}')).to.deep.equal([
      ['a"\\', '"\\\\\\""'],
      ['b', '1'],
    ]);
  });

  it('goes through deep nesting and long values without recursion', () => {
    const deep = `${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`;
    expect(members(`{"deep":${deep},"after":2}`)).to.deep.equal([
      ['deep', deep],
      ['after', '2'],
    ]);
    const slashes = JSON.stringify('\\'.repeat(100_000));
    expect(members(`{"s":${slashes}}`)).to.deep.equal([['s', slashes]]);
  });
});

describe('JSON text against JSON.parse', () => {
  const random = createRandom(20_310_507);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const times = <T>(max: number, make: () => T): T[] =>
    Array.from({ length: Math.floor(random() * (max + 1)) }, make);
  const character = (): string =>
    pick([
      ...Array.from('"\\{}[],: \n\u2028é😀0123456789'),
      '\ud800',
      String.fromCharCode(Math.floor(random() * 0x10000)),
    ]);
  const text = (): string => times(8, character).join('');
  const big = (): bigint =>
    BigInt(times(40, () => 1 + Math.floor(random() * 9)).join('') || '0') * pick([1n, -1n]);
  const leaf = (): unknown =>
    pick<() => unknown>([
      text,
      big,
      () => (random() - 0.5) * 10 ** Math.floor(random() * 40 - 20),
      () => pick([true, false, null, 0]),
    ])();
  const value = (depth: number): unknown => {
    if (depth === 0 || random() < 0.3) return leaf();
    if (random() < 0.5) return times(4, () => value(depth - 1));
    return Object.fromEntries(times(4, () => [text(), value(depth - 1)]));
  };
  /** The same text with space between its parts. */
  const spaced = (json: string): string =>
    json.replaceAll(
      /"(?:[^"\\]|\\.)*"|[{}[\],:]/g,
      (part) => pick(['', ' ', '\n\t']) + part + pick(['', '\r\n', ' ']),
    );

  it('reads the same from 3000 random texts, and every digit of their integers', () => {
    for (let round = 0; round < 3000; round++) {
      const object = { first: value(4), [text()]: value(4), last: big() };
      const compact = encodeJson(object, 'value');
      const json = spaced(compact);
      const found = jsonMembers(json);
      const parsed = JSON.parse(json) as Record<string, unknown>;
      expect([...found.keys()], json).to.deep.equal(Object.keys(parsed));
      for (const [name, member] of found) expect(JSON.parse(member), json).to.deep.equal(parsed[name]);
      expect(encodeJson(parseJson(json), 'value'), json).to.equal(compact);
    }
  });
});
