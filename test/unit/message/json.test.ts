import { expect } from 'chai';
import { encodeJson, EncodedJson, snapshotJson } from '../../../lib/message/json';
import { refusal } from '../../support/refusal';

const refused = (value: unknown): string =>
  refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => encodeJson(value, 'args')).message;

describe('encodeJson: what it keeps', () => {
  const cases: [name: string, value: unknown, text: string][] = [
    ['strings', 'a "b" \\ \n é 😀', '"a \\"b\\" \\\\ \\n é 😀"'],
    ['U+0000 and lone surrogates as escapes', '\0\ud800', '"\\u0000\\ud800"'],
    ['a long string that needs escapes', 'x'.repeat(70) + '"', `"${'x'.repeat(70)}\\""`],
    ['booleans and null', [true, false, null], '[true,false,null]'],
    [
      'numbers',
      [0, -1, 1.5, 1e21, 5e-324, Number.MAX_SAFE_INTEGER],
      '[0,-1,1.5,1e+21,5e-324,9007199254740991]',
    ],
    ['minus zero', [-0], '[-0.0]'],
    ['BigInt of any size', [2n ** 63n, -(10n ** 40n)], `[9223372036854775808,-1${'0'.repeat(40)}]`],
    ['Date', new Date(Date.UTC(2031, 4, 6, 7, 8, 9, 123)), '"2031-05-06T07:08:09.123Z"'],
    ['boxed primitives', [Object(1), Object('s'), Object(false), Object(2n)], '[1,"s",false,2]'],
    ['order of keys', { b: 1, a: 2, '': 3 }, '{"b":1,"a":2,"":3}'],
    ['undefined properties are left out', { a: undefined, b: 1, c: undefined }, '{"b":1}'],
    [
      'own enumerable properties of an instance',
      new (class Point {
        x = 1;
        #y = 2;
        get y() {
          return this.#y;
        }
      })(),
      '{"x":1}',
    ],
    ['objects without prototype', Object.assign(Object.create(null) as object, { a: 1 }), '{"a":1}'],
    ['an own __proto__ key', JSON.parse('{"__proto__":{"a":1}}'), '{"__proto__":{"a":1}}'],
    [
      'toJSON with its key',
      { price: { toJSON: (key: string) => `${key}: 9.99` } },
      '{"price":"price: 9.99"}',
    ],
    ['toJSON of an array', Object.assign([1], { toJSON: () => [2] }), '[2]'],
    ['a toJSON that answers undefined', { a: { toJSON: () => undefined } }, '{}'],
    ['URL', new URL('http://a.b/c'), '"http://a.b/c"'],
    [
      'one tag key alone, or with others',
      [{ __type__: 1 }, { __type__: 1, __value__: 2, x: 3 }],
      '[{"__type__":1},{"__type__":1,"__value__":2,"x":3}]',
    ],
    [
      'an instance whose then is no function',
      new (class {
        then = 1;
      })(),
      '{"then":1}',
    ],
    ['a non-enumerable symbol', Object.defineProperty({ a: 1 }, Symbol('s'), { value: 1 }), '{"a":1}'],
  ];
  for (const [name, value, text] of cases) {
    it(name, () => {
      expect(encodeJson(value, 'args')).to.equal(text);
    });
  }

  it('a toJSON that returns this', () => {
    const value = {
      a: 1,
      toJSON(): unknown {
        return this;
      },
    };
    expect(() => encodeJson(value, 'args')).to.throw('args.toJSON cannot be encoded: it is a function');
    class Model {
      a = 1;
      toJSON(): unknown {
        return this;
      }
    }
    expect(encodeJson(new Model(), 'args')).to.equal('{"a":1}');
  });

  it('the same object in two places', () => {
    const shared = { a: [1] };
    expect(encodeJson([shared, shared, { shared }], 'args')).to.equal(
      '[{"a":[1]},{"a":[1]},{"shared":{"a":[1]}}]',
    );
  });

  it('ignores a toJSON that somebody put on BigInt', () => {
    const prototype = BigInt.prototype as { toJSON?: () => string };
    prototype.toJSON = () => 'text';
    try {
      expect(encodeJson([2n ** 64n], 'args')).to.equal('[18446744073709551616]');
    } finally {
      delete prototype.toJSON;
    }
  });
});

describe('encodeJson: what it refuses', () => {
  const cases: [name: string, value: unknown, message: string | RegExp][] = [
    ['NaN', [NaN], 'args[0] cannot be encoded: NaN is not JSON'],
    ['infinities', [1, -Infinity], 'args[1] cannot be encoded: -Infinity is not JSON'],
    ['boxed NaN', [Object(NaN)], /args\[0\].*NaN/],
    ['undefined itself', undefined, 'args cannot be encoded: undefined is not JSON'],
    ['undefined in an array', [1, undefined], /^args\[1\].*use null/],
    ['a hole', [1, , 3], /^args\[1\].*hole/],
    ['a huge sparse array, at once', new Array(4e9), /^args\[0\].*hole/],
    ['a function', { a: () => 1 }, 'args.a cannot be encoded: it is a function'],
    ['a symbol', [Symbol('s')], /args\[0\].*symbol/],
    ['a symbol key', [{ [Symbol('s')]: 1 }], /^args\[0\] .*symbol as key/],
    ['Map', { m: new Map() }, /^args\.m .*Map; use Object\.fromEntries/],
    ['Set', [new Set()], /Set; use \[\.\.\.set\]/],
    ['WeakMap', [new WeakMap()], /WeakMap/],
    ['Promise', [Promise.resolve(1)], /args\[0\].*promise.*await it first/],
    [
      'a query builder',
      [
        { then: undefined },
        new (class {
          then(): void {
            /* thenable */
          }
        })(),
      ],
      /args\[1\].*await it first/,
    ],
    ['RegExp', [/x/], /RegExp/],
    ['Error', [new TypeError('x')], /Error; send its message/],
    ['Buffer', [Buffer.from('x')], /args\[0\].*binary data.*base64/],
    ['typed array', [new Float32Array(1)], /binary data \(Float32Array\).*base64/],
    ['ArrayBuffer', [new ArrayBuffer(1)], /binary data.*base64/],
    ['invalid Date', { at: new Date(NaN) }, 'args.at cannot be encoded: it is an invalid Date'],
    ['an async toJSON', [{ toJSON: () => Promise.resolve(1) }], /await it first/],
    ['a tagged value', { a: [{ __type__: 'uuid', __value__: 'x' }] }, /^args\.a\[0\] .*__type__/],
    ['a tagged value after omission', { __value__: 1, x: undefined, __type__: 2 }, /^args .*__type__/],
  ];
  for (const [name, value, message] of cases) {
    it(name, () => {
      expect(refused(value)).to.match(
        typeof message === 'string' ? new RegExp(`^${escape(message)}$`) : message,
      );
    });
  }

  it('cycles, naming where they close', () => {
    const a: { list: unknown[]; self?: unknown } = { list: [] };
    a.list.push({ back: a });
    expect(refused(a)).to.equal('args.list[0].back cannot be encoded: it contains itself');
    const array: unknown[] = [];
    array.push(array);
    expect(refused(array)).to.equal('args[0] cannot be encoded: it contains itself');
  });

  it('more than 500 levels, and not 500', () => {
    const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
    expect(encodeJson(nested(500), 'args')).to.have.length(1001);
    expect(refused(nested(501))).to.match(/^args(\[0\])+….*deeper than 500/);
    const endless = { toJSON: (): unknown => ({ endless }) };
    expect(refused(endless)).to.match(/deeper than 500/);
  });

  it('what throws while it is read, with the cause', () => {
    const cause = new Error('lazy loading failed');
    const throwing = {
      get name(): string {
        throw cause;
      },
    };
    for (const value of [
      throwing,
      {
        toJSON: () => {
          throw cause;
        },
      },
    ]) {
      const error = refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => encodeJson({ user: [value] }, 'kwargs'));
      expect(error.cause).to.equal(cause);
      expect(error.message).to.match(/^kwargs\.user\[0\]/);
    }
    expect(
      refused(
        new Proxy(
          {},
          {
            ownKeys: () => {
              throw new Error('trap');
            },
          },
        ),
      ),
    ).to.match(/threw/);
  });

  it('and writes paths one can follow', () => {
    expect(refused([{ items: { 'weird key': { x: NaN } } }])).to.match(
      /^args\[0\]\.items\["weird key"\]\.x /,
    );
    expect(refused({ ['k'.repeat(500)]: NaN })).to.have.length.below(200);
  });
});

describe('snapshotJson', () => {
  it('is embedded as it is and counts its depth', () => {
    const snapshot = snapshotJson({ big: [2n ** 70n] }, 'x');
    expect(snapshot).to.deep.equal(new EncodedJson('{"big":[1180591620717411303424]}', 2));
    expect(encodeJson([snapshot, snapshot], 'x')).to.equal(`[${snapshot.text},${snapshot.text}]`);
    expect(refused([new EncodedJson('…', 500)])).to.match(/^args\[0\] .*deeper than 500/);
  });

  it('does not follow later changes', () => {
    const args = [1];
    const snapshot = snapshotJson(args, 'args');
    args.push(2);
    expect(snapshot.text).to.equal('[1]');
  });
});

describe('encodeJson against JSON', () => {
  const random = mulberry32(20_310_506);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const character = (): string => String.fromCharCode(Math.floor(random() * pick([0x80, 0x800, 0x10000])));
  const text = (): string =>
    Array.from({ length: Math.floor(random() * pick([4, 20, 100])) }, character).join('');
  const leaf = (): unknown =>
    pick<() => unknown>([
      text,
      () => Math.floor((random() - 0.5) * 2 ** 53),
      () => (random() - 0.5) * 10 ** Math.floor(random() * 600 - 300),
      () => pick([true, false, null, 0, '']),
    ])();
  const value = (depth: number): unknown => {
    const size = Math.floor(random() * 5);
    if (depth === 0 || random() < 0.3) return leaf();
    if (random() < 0.5) return Array.from({ length: size }, () => value(depth - 1));
    return Object.fromEntries(Array.from({ length: size }, () => [text(), value(depth - 1)]));
  };

  it('writes the same text as JSON.stringify for 3000 ordinary values', () => {
    for (let round = 0; round < 3000; round++) {
      const sample = value(5);
      const encoded = encodeJson(sample, 'value');
      expect(encoded).to.equal(JSON.stringify(sample));
      expect(JSON.parse(encoded)).to.deep.equal(sample);
    }
  });
});

function escape(pattern: string): string {
  return pattern.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** A small seeded generator, so that a failure can be repeated. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
