import { expect } from 'chai';
import { encodeTaskOptions } from '../../../lib/message/encode-options';
import { group } from '../../../lib/message/group';
import { chain } from '../../../lib/message/chain';
import { OPTION_RULES } from '../../../lib/message/option-rules';
import { signature } from '../../../lib/message/signature';
import { goldenNames, readGolden } from '../../support/golden';
import { toOptions } from '../../support/golden-call';
import { refusal } from '../../support/refusal';
import type { TaskOptions } from '../../../lib/message/task-options';

const now = new Date('2031-05-06T07:08:09.123Z');
const encode = (options: object): ReturnType<typeof encodeTaskOptions> => encodeTaskOptions(options, now);
const stored = (options: object): unknown => JSON.parse(encode(options).json);
const invalid = (options: object): string =>
  refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => encode(options)).message;
const unknown = (options: object): string =>
  refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => encode(options)).message;

describe('encodeTaskOptions', () => {
  it('stores every option under its Celery name, and ours apart', () => {
    const everything: Required<TaskOptions> = {
      taskId: 't-1',
      countdown: 1.5,
      eta: undefined,
      expires: 60,
      queue: 'q',
      exchange: '',
      routingKey: 'r',
      priority: 255,
      timeLimit: 30,
      softTimeLimit: 0.5,
      retries: 0,
      shadow: 's',
      headers: { 'x-tenant': 'acme', big: 2n ** 63n - 1n },
      link: signature('a'),
      linkError: [signature('b'), signature('c')],
      chain: [signature('d'), signature('e')],
      chord: signature('f'),
      groupId: 'g',
      groupIndex: 0,
      rootId: 'root',
      parentId: 'parent',
      replyTo: 'reply',
      correlationId: 'c-1',
      ignoreResult: false,
      argsrepr: '(***)',
      kwargsrepr: '',
      compression: 'zlib',
      deliveryMode: 1,
      messageId: 'm-1',
      appId: 'app',
      type: 'cmd',
      timestamp: 1_936_854_489,
      orderingKey: 'order 7',
      idempotencyKey: 'once',
      holdUntil: new Date('2031-06-01T00:00:00Z'),
    };
    const sig = (task: string): object => ({
      task,
      args: [],
      kwargs: {},
      options: {},
      subtask_type: null,
      immutable: false,
    });
    const { json, ...row } = encode(everything);
    expect(row).to.deep.equal({
      taskId: 't-1',
      orderingKey: 'order 7',
      idempotencyKey: 'once',
      holdUntil: '2031-06-01T00:00:00.000000+00:00',
    });
    expect(json).to.include('"big":9223372036854775807');
    expect(JSON.parse(json.replace('9223372036854775807', '0'))).to.deep.equal({
      eta: '2031-05-06T07:08:10.623000+00:00',
      expires: '2031-05-06T07:09:09.123000+00:00',
      queue: 'q',
      exchange: '',
      routing_key: 'r',
      priority: 255,
      time_limit: 30,
      soft_time_limit: 0.5,
      retries: 0,
      shadow: 's',
      headers: { 'x-tenant': 'acme', big: 0 },
      link: [sig('a')],
      link_error: [sig('b'), sig('c')],
      chain: [sig('e'), sig('d')],
      chord: sig('f'),
      group_id: 'g',
      group_index: 0,
      root_id: 'root',
      parent_id: 'parent',
      reply_to: 'reply',
      correlation_id: 'c-1',
      ignore_result: false,
      argsrepr: '(***)',
      kwargsrepr: '',
      compression: 'zlib',
      delivery_mode: 1,
      message_id: 'm-1',
      app_id: 'app',
      type: 'cmd',
      timestamp: 1_936_854_489,
    });
    expect(Object.keys(everything)).to.have.members(Object.keys(OPTION_RULES));
  });

  it('stores nothing that was not given', () => {
    const nothing = {
      json: '{}',
      taskId: undefined,
      orderingKey: null,
      idempotencyKey: null,
      holdUntil: null,
    };
    expect(encode({})).to.deep.equal(nothing);
    expect(encode({ queue: undefined, countdown: undefined, taskId: undefined })).to.deep.equal(nothing);
    expect(encodeTaskOptions(undefined, now)).to.deep.equal(nothing);
  });

  it('makes times absolute, in six digits and UTC', () => {
    expect(stored({ countdown: 0 })).to.deep.equal({});
    expect(stored({ countdown: 0.25 })).to.deep.equal({ eta: '2031-05-06T07:08:09.373000+00:00' });
    expect(stored({ eta: '2031-05-06T08:00:00.250001+01:00' })).to.deep.equal({
      eta: '2031-05-06T07:00:00.250001+00:00',
    });
    expect(stored({ expires: -10 })).to.deep.equal({ expires: '2031-05-06T07:07:59.123000+00:00' });
    expect(stored({ expires: 0 })).to.deep.equal({ expires: '2031-05-06T07:08:09.123000+00:00' });
    expect(stored({ expires: new Date(0) })).to.deep.equal({ expires: '1970-01-01T00:00:00.000000+00:00' });
  });

  it('refuses two ways of saying when', () => {
    expect(invalid({ countdown: 1, eta: new Date() })).to.match(/countdown and eta/);
    expect(invalid({ countdown: 0, eta: new Date() })).to.match(/countdown and eta/);
  });

  const wrong: [option: string, values: unknown[], expected: RegExp][] = [
    ['taskId', ['', 42, null, 'x'.repeat(256), 'é'.repeat(128), 'a\0b', 'a\ud800'], /string|bytes/],
    ['countdown', [-1, NaN, Infinity, '5', 5n, 1e300], /number|years/],
    ['eta', [123, 'soon', new Date(NaN), '2031-02-30T00:00:00Z', {}], /valid Date or ISO 8601/],
    ['expires', [NaN, Infinity, 'later', true, 1e300], /seconds|years/],
    ['queue', [42, {}, [], '', 'q'.repeat(256)], /string|bytes/],
    ['exchange', [42, 'x'.repeat(256)], /string|bytes/],
    ['routingKey', ['', 1], /string/],
    ['priority', [-1, 256, 1.5, '1', NaN], /an integer from 0 to 255/],
    ['timeLimit', [0, -1, '1', Infinity], /above 0/],
    ['softTimeLimit', [0, NaN], /above 0/],
    ['retries', [-1, 32_768, 0.5], /an integer from 0 to 32767/],
    ['shadow', ['', 1], /non-empty string/],
    ['headers', [[], 'x', new Map(), 1], /a plain object/],
    ['link', ['tasks.add', {}, { task: 'a', args: [] }], /a signature, chain, group or chord/],
    ['linkError', [() => 1], /a signature, chain, group or chord/],
    ['chain', [signature('a'), 'x'], /an array of signatures/],
    ['chord', [[signature('a')]], /a signature, chain, group or chord/],
    ['groupId', ['', 1], /non-empty string/],
    ['groupIndex', [-1, 1.5, '0'], /an integer/],
    ['rootId', ['', {}], /non-empty string/],
    ['parentId', [''], /non-empty string/],
    ['replyTo', ['x'.repeat(256)], /string|255 bytes/],
    ['correlationId', ['é'.repeat(128)], /string|255 bytes/],
    ['ignoreResult', [0, 'false'], /true or false/],
    ['argsrepr', [1, [], 'x'.repeat(4097), 'a\0'], /string|bytes/],
    ['kwargsrepr', [{}, '😀'.repeat(1025), '\ud800'], /string|bytes/],
    ['compression', ['bzip2', '', true, 'application/x-gzip'], /"zlib" or "gzip"/],
    ['deliveryMode', [0, 3, '1', true], /1 or 2/],
    ['messageId', ['', 7, 'x'.repeat(256)], /string|bytes/],
    ['appId', ['', {}, 'é'.repeat(128)], /string|bytes/],
    ['type', ['', 1, 'x'.repeat(256)], /string|bytes/],
    ['timestamp', [-1, 1.5, '1', new Date(), 2 ** 53], /an integer from 0/],
    ['orderingKey', ['', 'a\0', '\udfff', 'x'.repeat(1025), 7], /string|bytes/],
    ['idempotencyKey', ['', 'a\0', '\ud800x', 'é'.repeat(513)], /string|bytes/],
    ['holdUntil', [5, 'x', new Date(NaN)], /valid Date/],
  ];
  for (const [option, values, expected] of wrong) {
    it(`names ${option}, what was expected and what came`, () => {
      for (const value of [...values, null]) {
        expect(invalid({ [option]: value }), String(value))
          .to.match(expected)
          .and.match(new RegExp(`Option ${option}\\b`));
      }
    });
  }

  it('checks every option there is', () => {
    expect(wrong.map(([option]) => option)).to.have.members(Object.keys(OPTION_RULES));
  });

  it('says type and short value', () => {
    expect(invalid({ queue: 42 })).to.equal('Option queue must be a non-empty string, got number 42');
    expect(invalid({ queue: {} })).to.equal('Option queue must be a non-empty string, got an object');
    expect(invalid({ taskId: 'x'.repeat(5000) })).to.equal(
      `Option taskId must be at most 255 bytes of UTF-8, got string "${'x'.repeat(40)}…"`,
    );
    expect(invalid({ link: [signature('a'), null] })).to.match(/^Option link\[1\] .* got null$/);
  });

  it('takes limits to the byte', () => {
    expect(encode({ taskId: 'é'.repeat(127) + 'x' }).taskId).to.have.length(128);
    expect(encode({ orderingKey: '😀'.repeat(256) }).orderingKey).to.have.length(512);
    expect(stored({ exchange: 'x'.repeat(255), priority: 0, retries: 32_767 })).to.include({
      priority: 0,
      retries: 32_767,
    });
  });

  it('refuses options that do not exist, with the likely name', () => {
    expect(unknown({ quue: 'q' })).to.equal('Unknown option "quue": did you mean queue?');
    expect(unknown({ task_id: 'x' })).to.match(/did you mean taskId\?/);
    expect(unknown({ soft_time_limit: 1 })).to.match(/did you mean softTimeLimit\?/);
    expect(unknown({ TaskID: 'x' })).to.match(/did you mean taskId\?/);
    expect(unknown({ serializer: 'json' })).to.equal('Unknown option "serializer"');
    expect(unknown({ ['x'.repeat(9999)]: 1 })).to.match(/^Unknown option "x+…"$/);
    expect(unknown(JSON.parse('{"__proto__":1}') as object)).to.match(/__proto__/);
    expect(unknown({ toString: undefined })).to.match(/toString/);
  });

  it('refuses options that are no object', () => {
    for (const options of [[], 'x', 5, new Map(), null]) {
      expect(invalid(options as object)).to.match(/^options must be a plain object/);
    }
  });

  it('takes the headers that Celery takes', () => {
    for (const name of goldenNames('rabbitmq', /^headers-/)) {
      const { headers } = readGolden('rabbitmq', name).call.options;
      expect(stored(toOptions({ headers }))).to.deep.equal({ headers });
    }
  });

  it('refuses a chain option whose rest would go to every member of a group', () => {
    const [a, b] = [signature('a'), signature('b')];
    expect(invalid({ chain: [group([a, b]), a] })).to.match(/^Option chain\[0\] .*chain\(group/);
    expect(stored({ chain: [chain(group([a, b]), a)] })).to.have.nested.property(
      'chain[0].task',
      'celery.chord',
    );
    expect(stored({ chain: [a, group([a, b])] })).to.have.nested.property('chain[0].task', 'celery.group');
  });
});
