import { expect } from 'chai';
import { readOptions } from '../../../lib/message/read-options';
import { refusal } from '../../support/refusal';

const read = (options: unknown): unknown => readOptions(JSON.stringify(options));
const invalid = (options: unknown): string =>
  refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => read(options)).message;

/** Every option: as stored, and as the message needs it if that is something else. */
const every: Record<string, [stored: unknown, read?: unknown]> = {
  eta: ['2031-05-06T07:08:10.123456+00:00'],
  expires: ['2031-05-06T07:09:09.123000+00:00'],
  queue: ['q'],
  exchange: [''],
  routing_key: ['k'],
  priority: [255],
  time_limit: [300],
  soft_time_limit: [0.5],
  retries: [200],
  shadow: ['s'],
  headers: [{ a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
  link: [[{ task: 'a' }], '[{"task":"a"}]'],
  link_error: [[], '[]'],
  chain: [[{ task: 'b' }], '[{"task":"b"}]'],
  chord: [{ task: 'c' }, '{"task":"c"}'],
  chord_size: [{ g: 2, h: 1 }],
  group_id: ['g'],
  group_index: [0],
  root_id: ['r'],
  parent_id: ['p'],
  reply_to: ['reply'],
  correlation_id: ['c'],
  ignore_result: [true],
  argsrepr: [''],
  kwargsrepr: ['{…}'],
  compression: ['gzip'],
  delivery_mode: [1],
  message_id: ['m'],
  app_id: ['a'],
  type: ['t'],
  timestamp: [1_936_854_489],
};

const text: [values: unknown[], expected: RegExp] = [
  ['', 5, null, 'x'.repeat(256), 'a\0', []],
  /string|bytes/,
];
const signatures: [values: unknown[], expected: RegExp] = [[{}, 'x', null, 1], /an array of signatures/];
const wrong: Record<string, [values: unknown[], expected: RegExp]> = {
  eta: [[5, 'soon', null, '2031-02-30T00:00:00Z'], /valid Date or ISO 8601/],
  expires: [[60, 'later', null], /valid Date or ISO 8601/],
  queue: text,
  exchange: [[null, 1, 'x'.repeat(256)], /string|bytes/],
  routing_key: text,
  priority: [[-1, 256, 1.5, '5', null], /an integer from 0 to 255/],
  time_limit: [['30', null, true, [300, 240]], /a number of seconds/],
  soft_time_limit: [['30', null], /a number of seconds/],
  retries: [[-1, 0.5, '3', null], /an integer from 0/],
  shadow: [[1, null, 'a\0'], /string/],
  headers: [[[], 'x', null, 1], /an object/],
  link: signatures,
  link_error: signatures,
  chain: signatures,
  chord: [[[], null, 'x'], /an object/],
  chord_size: [[{ g: 0 }, { g: -1 }, { g: 1.5 }, { g: '2' }, null, 3], /sizes by group id/],
  group_id: text,
  group_index: [[-1, 1.5, '0', null], /an integer from 0/],
  root_id: text,
  parent_id: text,
  reply_to: text,
  correlation_id: text,
  ignore_result: [[0, 'false', null], /true or false/],
  argsrepr: [[1, null, {}], /string/],
  kwargsrepr: [[1, null, []], /string/],
  compression: [['bzip2', null, 1], /"zlib" or "gzip"/],
  delivery_mode: [[0, 3, '2', null], /1 or 2/],
  message_id: text,
  app_id: text,
  type: text,
  timestamp: [[-1, 1.5, '1', null], /an integer from 0/],
};

describe('readOptions', () => {
  for (const [name, [stored, expected = stored]] of Object.entries(every)) {
    it(`reads ${name}`, () => {
      expect(read({ [name]: stored })).to.deep.equal({ [name]: expected });
    });
  }

  it('reads all of them together, and none', () => {
    const stored = Object.entries(every).map(([name, [value]]) => [name, value] as const);
    expect(read(Object.fromEntries(stored))).to.deep.equal(
      Object.fromEntries(Object.entries(every).map(([name, [value, expected = value]]) => [name, expected])),
    );
    for (const none of ['{}', ' {} ', '{\n}']) expect(readOptions(none)).to.deep.equal({});
  });

  for (const [name, [values, expected]] of Object.entries(wrong)) {
    it(`refuses a wrong ${name}`, () => {
      for (const value of values) {
        expect(invalid({ queue: 'q', [name]: value }), JSON.stringify(value))
          .to.match(expected)
          .and.match(new RegExp(`^Option ${name} `));
      }
    });
  }

  it('checks each that it reads', () => {
    expect(Object.keys(wrong)).to.have.members(Object.keys(every));
  });

  it('refuses integers beyond what a number holds, wherever one belongs', () => {
    for (const name of ['priority', 'retries', 'group_index', 'timestamp', 'time_limit', 'chord_size']) {
      const value = name === 'chord_size' ? '{"g":9007199254740993}' : '9007199254740993';
      refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => readOptions(`{"${name}":${value}}`));
    }
  });

  it('refuses options that it does not know, also of an older or newer version', () => {
    for (const name of ['countdown', 'task_id', 'taskId', 'serializer', 'toString', '__proto__', '']) {
      const error = refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => readOptions(`{"${name}":1}`));
      expect(error.message).to.equal(`Unknown option ${JSON.stringify(name)}`);
    }
  });

  it('refuses what is no object', () => {
    for (const options of ['[]', 'null', '"{}"', '1', ' [{}] ']) {
      const error = refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () => readOptions(options));
      expect(error.message).to.equal('options must be an object');
    }
  });

  it('hands on the text of what is spliced, to the last digit and space', () => {
    const options = readOptions(
      ' { "chain" : [ {"args":[1.0, 18446744073709551616, "\\u00e9\\"]"]} ] , "headers":{ "n":1.50 } } ',
    );
    expect(options.chain).to.equal('[ {"args":[1.0, 18446744073709551616, "\\u00e9\\"]"]} ]');
    expect(options.headers).to.equal('{ "n":1.50 }');
  });

  it('reads rows that were edited by hand', () => {
    const edited =
      '{\n  "queue" : "a",\n  "eta": "2031-05-06 10:00+02:00",\n  "queue": "b",\n  "priority": 5.0\n}';
    expect(readOptions(edited)).to.deep.equal({
      queue: 'b',
      eta: '2031-05-06T08:00:00.000000+00:00',
      priority: 5,
    });
  });
});
