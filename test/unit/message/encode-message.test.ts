import { expect } from 'chai';
import { inflateSync } from 'node:zlib';
import { parseCeleryOptions, type CeleryOptions } from '../../../lib/celery-options';
import type { CeleryMessage } from '../../../lib/message/celery-message';
import { encodeMessage } from '../../../lib/message/encode-message';
import type { StoredTask } from '../../../lib/message/stored-task';
import { refusal } from '../../support/refusal';

const NOW = Date.parse('2031-05-06T07:08:09.123Z');
const YEAR_MS = 31_536_000_000;

const plain: StoredTask = {
  taskId: 'id-1',
  taskName: 'proj.tasks.add',
  args: '[2,3]',
  kwargs: '{}',
  options: '{}',
  redactedArgs: null,
  redactedKwargs: null,
  traceHeaders: null,
  logContext: null,
};

function encode(task: Partial<StoredTask> = {}, celery: Partial<CeleryOptions> = {}): CeleryMessage {
  const settings = parseCeleryOptions({ broker: 'amqp://h', ...celery });
  return encodeMessage({ ...plain, ...task }, { ...settings, origin: 'gen1@host' }, NOW);
}
const withOptions = (options: object, celery?: Partial<CeleryOptions>): CeleryMessage =>
  encode({ options: JSON.stringify(options) }, celery);
const after = (ms: number): string => new Date(NOW + ms).toISOString();

describe('encodeMessage', () => {
  it('makes the message of a plain call', () => {
    const message = encode();
    expect(message).to.deep.equal({
      taskId: 'id-1',
      route: { exchange: '', routingKey: 'celery', queue: 'celery' },
      headers: {
        lang: 'js',
        task: 'proj.tasks.add',
        id: 'id-1',
        shadow: null,
        eta: null,
        expires: null,
        group: null,
        group_index: null,
        retries: 0,
        timelimit: [null, null],
        root_id: 'id-1',
        parent_id: null,
        argsrepr: '[2,3]',
        kwargsrepr: '{}',
        origin: 'gen1@host',
        ignore_result: false,
      },
      contextHeaders: [],
      properties: { correlationId: 'id-1', deliveryMode: 2, priority: 0 },
      body: Buffer.from('[[2,3],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'),
      etaMs: null,
      chordSizes: {},
    });
  });

  it('puts every option where it belongs', () => {
    const message = withOptions({
      eta: '2031-05-06T08:00:00.250001+00:00',
      expires: after(60_000),
      queue: 'q',
      priority: 7,
      time_limit: 300,
      soft_time_limit: 240.5,
      retries: 200,
      shadow: 'shown',
      group_id: 'g',
      group_index: 2,
      root_id: 'root',
      parent_id: 'parent',
      reply_to: 'reply',
      correlation_id: 'corr',
      ignore_result: true,
      argsrepr: '(***)',
      kwargsrepr: '',
      delivery_mode: 1,
      message_id: 'm',
      app_id: 'a',
      type: 't',
      timestamp: 9,
      chord_size: { g: 3 },
    });
    expect(message.headers).to.deep.include({
      shadow: 'shown',
      eta: '2031-05-06T08:00:00.250001+00:00',
      expires: '2031-05-06T07:09:09.123000+00:00',
      group: 'g',
      group_index: 2,
      retries: 200,
      timelimit: [300, 240.5],
      root_id: 'root',
      parent_id: 'parent',
      argsrepr: '(***)',
      kwargsrepr: '',
      ignore_result: true,
    });
    expect(message.properties).to.deep.equal({
      correlationId: 'corr',
      replyTo: 'reply',
      deliveryMode: 1,
      priority: 7,
      expiration: '60000',
      messageId: 'm',
      appId: 'a',
      type: 't',
      timestamp: 9,
    });
    expect(message).to.deep.include({
      etaMs: Date.parse('2031-05-06T08:00:00.250Z'),
      chordSizes: { g: 3 },
      route: { exchange: '', routingKey: 'q', queue: 'q' },
    });
  });

  it('splices args, kwargs and the rest of the canvas in as they were stored', () => {
    const { body } = encode({
      args: ' [ 1.0, 1e2, 18446744073709551616, "\\u00e9é" ]',
      kwargs: '\n{"k":-0.0}',
      options:
        '{"link":[{"task":"a","n":1.50}],"link_error":[{"task":"e"}],"chain":[{"task":"c"}],"chord":{"n":9007199254740993}}',
    });
    expect(body.toString()).to.equal(
      '[ [ 1.0, 1e2, 18446744073709551616, "\\u00e9é" ],\n{"k":-0.0},' +
        '{"callbacks":[{"task":"a","n":1.50}],"errbacks":[{"task":"e"}],"chain":[{"task":"c"}],"chord":{"n":9007199254740993}}]',
    );
  });

  it('refuses a row that would stop a Python worker', () => {
    const rows: [part: Partial<StoredTask>, message: RegExp][] = [
      [{ args: 'null' }, /^args must be an array$/],
      [{ args: '{}' }, /^args must be an array$/],
      [{ args: '"[]"' }, /^args must be an array$/],
      [{ kwargs: 'null' }, /^kwargs must be an object$/],
      [{ kwargs: ' []' }, /^kwargs must be an object$/],
      [{ taskId: '' }, /^The task id must be a non-empty string$/],
      [{ taskId: 'x'.repeat(256) }, /^The task id must be at most 255 bytes/],
      [{ taskName: '' }, /^The task name must be a non-empty string/],
    ];
    for (const [part, message] of rows) {
      expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => encode(part)).message).to.match(message);
    }
    refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => withOptions({ priority: 256 }));
    refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => withOptions({ countdown: 5 }));
  });

  it("compresses the body as Celery's zlib", () => {
    for (const compression of ['zlib', 'gzip']) {
      const { headers, body } = withOptions({ compression });
      expect(headers['compression']).to.equal('application/x-gzip');
      expect(inflateSync(body)).to.deep.equal(encode().body);
    }
    expect(encode().headers).not.to.have.property('compression');
  });
});

describe('where a task goes', () => {
  const routes = {
    'proj.*': { queue: 'video', priority: 4, routingKey: 'v.k' },
    'ex.*': { exchange: 'e', routingKey: 'k' },
  };
  const routed = (options: object, taskName = plain.taskName): [string, string, number] => {
    const { route, properties } = encode({ taskName, options: JSON.stringify(options) }, { routes });
    return [route.exchange, route.routingKey, properties.priority];
  };

  it('is what its call says, else what the routes say, else the default queue', () => {
    expect(routed({})).to.deep.equal(['', 'video', 4]);
    expect(routed({ queue: 'own' })).to.deep.equal(['', 'own', 4]);
    expect(routed({ priority: 0 })).to.deep.equal(['', 'video', 0]);
    expect(routed({ exchange: 'x', routing_key: 'y' })).to.deep.equal(['x', 'y', 4]);
    expect(routed({}, 'ex.a')).to.deep.equal(['e', 'k', 0]);
    expect(routed({ routing_key: 'mine' }, 'ex.a')).to.deep.equal(['e', 'mine', 0]);
    expect(routed({}, 'other')).to.deep.equal(['', 'celery', 0]);
  });
});

describe('expiration', () => {
  const expiration = (ms: number): string | undefined =>
    withOptions({ expires: after(ms) }).properties.expiration;

  it('counts from now, in whole milliseconds', () => {
    expect(expiration(1)).to.equal('1');
    expect(expiration(1500)).to.equal('1500');
    expect(withOptions({ expires: '2031-05-06T07:08:09.124999+00:00' }).properties.expiration).to.equal('1');
  });

  it('is 0 for what has expired, while the header keeps the instant', () => {
    for (const ms of [0, -1, -5000, -50 * YEAR_MS]) expect(expiration(ms), String(ms)).to.equal('0');
    expect(withOptions({ expires: after(-5000) }).headers['expires']).to.equal(
      '2031-05-06T07:08:04.123000+00:00',
    );
  });

  it('is left out beyond the ten years that RabbitMQ takes', () => {
    expect(expiration(10 * YEAR_MS)).to.equal('315360000000');
    expect(withOptions({ expires: after(10 * YEAR_MS + 1) }).properties).not.to.have.property('expiration');
    expect(withOptions({ expires: '9999-12-31T23:59:59Z' }).headers['expires']).to.be.a('string');
  });
});

describe('argsrepr and kwargsrepr', () => {
  it('are what was redacted rather than the arguments, and what was given rather than either', () => {
    const redacted = { redactedArgs: '["***"]', redactedKwargs: '{"card":"***"}' };
    expect(encode(redacted).headers).to.include({ argsrepr: '["***"]', kwargsrepr: '{"card":"***"}' });
    expect(encode({ ...redacted, options: '{"argsrepr":"given"}' }).headers).to.include({
      argsrepr: 'given',
      kwargsrepr: '{"card":"***"}',
    });
    expect(encode(redacted).body.toString()).to.include('[2,3]').and.not.include('***');
  });

  it('are cut at 1024 characters', () => {
    const { headers } = encode({ args: `["${'x'.repeat(2000)}"]`, redactedKwargs: `"${'y'.repeat(2000)}"` });
    for (const name of ['argsrepr', 'kwargsrepr']) {
      expect(headers[name])
        .to.be.a('string')
        .and.have.length(1024)
        .and.match(/\.\.\.$/);
    }
  });
});

describe('headers of the message', () => {
  it('have custom headers and context after the protocol, at the top and nested', () => {
    const { headers, contextHeaders } = encode({
      options: '{"headers":{"x-tenant":"acme"}}',
      traceHeaders: '{"traceparent":"t","id":"hijacked"}',
      logContext: '{"requestId":"r"}',
    });
    const carried = { traceparent: 't', log_context: { requestId: 'r' }, 'x-tenant': 'acme' };
    expect(headers).to.deep.equal({ ...encode().headers, ...carried, headers: carried });
    expect(contextHeaders).to.deep.equal(['traceparent', 'log_context']);
  });

  it('have them at the top only if they are not to be nested', () => {
    const task = { options: '{"headers":{"x-tenant":"acme"}}', traceHeaders: '{"traceparent":"t"}' };
    const { headers } = encode(task, { nestHeaders: false });
    expect(headers).to.deep.equal({ ...encode().headers, traceparent: 't', 'x-tenant': 'acme' });
  });
});
