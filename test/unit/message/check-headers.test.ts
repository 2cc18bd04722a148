import { expect } from 'chai';
import { encodeHeaders } from '../../../lib/message/check-headers';
import { encodeTaskOptions } from '../../../lib/message/encode-options';
import { EncodedJson } from '../../../lib/message/json';
import { PROTOCOL_HEADERS } from '../../../lib/message/protocol-headers';
import { refusal } from '../../support/refusal';

const now = new Date();
const accepted = (headers: object): string => {
  const encoded = encodeHeaders(headers, 'headers');
  if (encoded instanceof EncodedJson) return encoded.text;
  throw new Error(`${encoded.what} must be ${encoded.expected}`);
};
const refused = (headers: unknown): string =>
  refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => encodeTaskOptions({ headers } as never, now)).message;

describe('custom headers', () => {
  it('are any JSON', () => {
    const headers = { s: 'é😀', n: 7, f: 1.5, b: true, nil: null, list: [1, 'two', [null]], obj: { a: {} } };
    expect(JSON.parse(accepted(headers))).to.deep.equal(headers);
    expect(accepted({})).to.equal('{}');
    expect(accepted({ headers: { 'sentry-trace': 'x' }, stamps: {} })).to.include('sentry-trace');
  });

  it("have none of the protocol's names", () => {
    expect(PROTOCOL_HEADERS).to.have.length(17);
    for (const name of PROTOCOL_HEADERS) {
      expect(refused({ [name]: 1 })).to.match(/^Option headers: a header name must be none of the Celery/);
    }
    expect(accepted({ nested: { id: 1, task: 2 } })).to.equal('{"nested":{"id":1,"task":2}}');
  });

  it('have names that AMQP and JavaScript keep', () => {
    expect(accepted({ ['é'.repeat(127) + 'x']: 1 })).to.have.length(134);
    expect(refused({ ['é'.repeat(128)]: 1 })).to.match(/at most 255 bytes/);
    expect(refused({ nested: [{ ['k'.repeat(256)]: 1 }] })).to.match(/a name must be at most 255 bytes/);
    expect(refused({ '': 1 })).to.match(/non-empty/);
    expect(refused({ 'a\0': 1 })).to.match(/NUL/);
    expect(refused({ '\ud800': 1 })).to.match(/lone surrogates/);
    expect(refused(JSON.parse('{"__proto__":{"a":1}}'))).to.match(/a name that JavaScript keeps.*__proto__/);
  });

  it('have at most 8192 bytes of JSON, not characters', () => {
    const room = 8192 - '{"h":""}'.length;
    expect(accepted({ h: 'x'.repeat(room) })).to.have.length(8192);
    expect(accepted({ h: 'é'.repeat(room / 2) })).to.have.length(8192 - room / 2);
    expect(refused({ h: 'x'.repeat(room + 1) })).to.match(/at most 8192 bytes of JSON, got number 8193$/);
    expect(refused({ h: 'é'.repeat(room / 2 + 1) })).to.match(/got number 8194$/);
  });

  it('have only text that UTF-8 can hold', () => {
    expect(refused({ x: ['a\ud800b'] })).to.match(/a string must be without lone surrogates/);
    expect(accepted({ x: 'a\u{1F600}b' })).to.include('\u{1F600}');
  });

  it('have integers that every worker reads', () => {
    const fine = [-(2 ** 31), 2 ** 53, 2n ** 63n - 1n, -(2n ** 31n), 1e300, -1e300, 0.1, 1e21];
    expect(accepted({ fine })).to.include('9223372036854775807');
    for (const wrong of [2n ** 63n, -(2n ** 31n) - 1n, -(2 ** 31) - 1, -(2 ** 53), 2n ** 100n, 1e20]) {
      for (const headers of [{ n: wrong }, { a: [{ b: [wrong] }] }]) {
        expect(refused(headers)).to.match(
          /an integer must be within -2\^31 and 2\^63 - 1, or a string, got bigint/,
        );
      }
    }
    expect(accepted({ text: '-99999999999999999999', '-99999999999': 1 })).to.include(
      '-99999999999999999999',
    );
  });

  it('are a plain object of JSON', () => {
    for (const value of [[], 'x', new Map(), 1, null, new Headers()]) {
      expect(refused(value)).to.match(/^Option headers must be a plain object, got /);
    }
    const error = refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () =>
      encodeHeaders({ a: [new Map()] }, 'headers'),
    );
    expect(error.message).to.match(/^headers\.a\[0\] /);
  });
});
