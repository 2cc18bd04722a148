import { expect } from 'chai';
import {
  type Carried,
  carriedHeaders,
  type CarriedHeaders,
  withoutHeaders,
} from '../../../lib/message/message-headers';
import { PROTOCOL_HEADERS } from '../../../lib/message/protocol-headers';
import { refusal } from '../../support/refusal';

const NOTHING: CarriedHeaders = { custom: undefined, traceHeaders: null, logContext: null };

interface Given {
  readonly custom?: unknown;
  readonly traceHeaders?: unknown;
  readonly logContext?: unknown;
}

function carry(given: Given, nest = true): Carried {
  const texts = Object.entries(given).map(([name, value]) => [name, JSON.stringify(value)]);
  return carriedHeaders({ ...NOTHING, ...(Object.fromEntries(texts) as Partial<CarriedHeaders>) }, nest);
}

describe('carriedHeaders', () => {
  it('are none without custom headers and context', () => {
    expect(carriedHeaders(NOTHING, true)).to.deep.equal({ headers: {}, context: [] });
    expect(carry({ custom: {} }).headers).to.deep.equal({});
    expect(carry({ traceHeaders: {} }).headers).to.deep.equal({});
  });

  it('has the trace both at the top and nested: for OpenTelemetry and for Sentry', () => {
    const trace = { traceparent: '00-1-2-01', 'sentry-trace': '1-2-1', baggage: 'a=b' };
    expect(carry({ traceHeaders: trace })).to.deep.equal({
      headers: { ...trace, headers: trace },
      context: ['traceparent', 'sentry-trace', 'baggage'],
    });
    expect(carry({ traceHeaders: trace }, false).headers).to.deep.equal(trace);
  });

  it('has the log context as one header', () => {
    const logContext = { requestId: 'r', user: { id: 2 } };
    expect(carry({ logContext })).to.deep.equal({
      headers: { log_context: logContext, headers: { log_context: logContext } },
      context: ['log_context'],
    });
  });

  it('lets custom headers win, and then they are no context', () => {
    const carried = carry({
      custom: { traceparent: 'mine', 'x-tenant': 'acme' },
      traceHeaders: { traceparent: 'theirs', baggage: 'a=b' },
      logContext: { a: 1 },
    });
    const expected = { traceparent: 'mine', baggage: 'a=b', log_context: { a: 1 }, 'x-tenant': 'acme' };
    expect(carried.headers).to.deep.equal({ ...expected, headers: expected });
    expect(carried.context).to.deep.equal(['baggage', 'log_context']);
    const { context, headers } = carry({ custom: { log_context: 'own' }, logContext: { a: 1 } });
    expect(context).to.deep.equal([]);
    expect(headers['log_context']).to.equal('own');
  });

  it("drops the protocol's own names from a trace, and `headers`", () => {
    const trace = Object.fromEntries([...PROTOCOL_HEADERS, 'headers'].map((name) => [name, 'hijacked']));
    expect(carry({ traceHeaders: { ...trace, traceparent: 't' } })).to.deep.equal({
      headers: { traceparent: 't', headers: { traceparent: 't' } },
      context: ['traceparent'],
    });
  });

  it('merges into a custom header that is itself named `headers`, whose own values win', () => {
    const custom = { 'x-tenant': 'acme', headers: { 'x-tenant': 'nested', own: 1 } };
    expect(carry({ custom, traceHeaders: { traceparent: 't' } }).headers).to.deep.equal({
      traceparent: 't',
      'x-tenant': 'acme',
      headers: { traceparent: 't', 'x-tenant': 'nested', own: 1 },
    });
    expect(carry({ custom }, false).headers).to.deep.equal(custom);
  });

  it('leaves a custom header named `headers` alone that is no object', () => {
    for (const headers of ['text', 1, null, [1]]) {
      expect(carry({ custom: { headers, a: 1 } }).headers).to.deep.equal({ headers, a: 1 });
    }
  });

  it('keeps integers that a number cannot hold', () => {
    const { headers } = carriedHeaders({ ...NOTHING, custom: '{"n":9223372036854775807}' }, true);
    expect(headers).to.deep.equal({ n: 9223372036854775807n, headers: { n: 9223372036854775807n } });
  });

  it('leaves out context that not every worker could read, and refuses such custom headers', () => {
    const bad = ['1e400', '-5000000000', '9223372036854775808', `{"${'k'.repeat(256)}":1}`, '[[1e999]]'];
    for (const value of bad) {
      const json = `{"bad":${value},"good":1}`;
      const { headers } = carriedHeaders({ ...NOTHING, logContext: json, traceHeaders: json }, false);
      expect(headers, value).to.deep.equal({ good: 1, log_context: { good: 1 } });
      refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => carriedHeaders({ ...NOTHING, custom: json }, false));
    }
  });

  it('ignores a trace that was edited into something else', () => {
    for (const traceHeaders of [[1], 'x', null, 5]) expect(carry({ traceHeaders }).headers).to.deep.equal({});
  });
});

describe('withoutHeaders', () => {
  it('leaves them out at the top and nested, and changes nothing else', () => {
    const headers = { a: 1, b: { a: 2 }, headers: { a: 3, c: [4] } };
    expect(withoutHeaders(headers, ['a'])).to.deep.equal({ b: { a: 2 }, headers: { c: [4] } });
    expect(headers).to.deep.equal({ a: 1, b: { a: 2 }, headers: { a: 3, c: [4] } });
    expect(withoutHeaders({ headers: 'text', a: 1 }, ['a', 'x'])).to.deep.equal({ headers: 'text' });
  });
});
