import { expect } from 'chai';
import { encodeCanvas } from '../../../lib/message/encode-canvas';
import { encodeTask, type EncodedTask, type EncodeSettings } from '../../../lib/message/encode-task';
import { goldenNames, readGolden, toCanvas, toOptions, type Golden, type GoldenMessage } from './golden';

type Fields = Record<string, unknown>;

/** The parts of a message that the canvas decides. */
interface Message {
  headers: Fields;
  body: unknown[];
}

function encode({ call, now }: Golden): EncodedTask[] {
  const forced = call.header_id === undefined ? [] : [call.header_id];
  let generated = 0;
  const settings: EncodeSettings = {
    maxPayloadBytes: 1e6,
    now: new Date(now),
    newId: () => forced.shift() ?? `generated-${String(++generated)}`,
  };
  const options = toOptions(call.options);
  if (call.kind !== 'task') return [...encodeCanvas(toCanvas(call), options, settings).tasks];
  return [encodeTask({ name: call.task, args: call.args, kwargs: call.kwargs, options }, settings)];
}

/** What a relay makes of a row. */
function toMessage({ taskName, taskId, args, kwargs, options }: EncodedTask): Message {
  const stored = JSON.parse(options) as Fields;
  return {
    headers: {
      task: taskName,
      id: taskId,
      eta: stored['eta'] ?? null,
      expires: stored['expires'] ?? null,
      group: stored['group_id'] ?? null,
      group_index: stored['group_index'] ?? null,
      root_id: stored['root_id'] ?? taskId,
      parent_id: stored['parent_id'] ?? null,
      ...(stored['headers'] as Fields | undefined),
    },
    body: [
      JSON.parse(args),
      JSON.parse(kwargs),
      {
        callbacks: stored['link'] ?? null,
        errbacks: stored['link_error'] ?? null,
        chain: stored['chain'] ?? null,
        chord: stored['chord'] ?? null,
      },
    ],
  };
}

const NOT_OURS = [
  'lang',
  'shadow',
  'retries',
  'timelimit',
  'argsrepr',
  'kwargsrepr',
  'origin',
  'ignore_result',
];

function fromGolden({ headers, body }: GoldenMessage): Message {
  return {
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !NOT_OURS.includes(name))),
    body,
  };
}

/** Renames generated ids by order of appearance, drops reply_to, and cuts instants to the milliseconds of a Date. */
function comparable(value: unknown, isGenerated: (text: string) => boolean): unknown {
  const names = new Map<string, string>();
  const rename = (text: string): string => {
    if (!isGenerated(text)) return text.replace(/^(.*\.\d{3})\d{3}\+00:00$/, '$1');
    if (!names.has(text)) names.set(text, `id ${String(names.size + 1)}`);
    return names.get(text) ?? text;
  };
  const walk = (item: unknown): unknown => {
    if (typeof item === 'string') return rename(item);
    if (Array.isArray(item)) return item.map(walk);
    if (typeof item !== 'object' || item === null) return item;
    const entries = Object.entries(item).filter(([key]) => key !== 'reply_to');
    // Sorted, so that ids are met in the same order on both sides.
    return Object.fromEntries(
      entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, entry]) => [rename(key), walk(entry)]),
    );
  };
  return walk(value);
}

/** The chord counters that a relay writes before it publishes. */
function sizesOf(tasks: EncodedTask[]): Fields {
  return Object.assign(
    {},
    ...tasks.map(({ options }) => (JSON.parse(options) as Fields)['chord_size']),
  ) as Fields;
}

function goldenSizes({ backend_writes }: Golden): Fields {
  const sizes = Object.entries(backend_writes).map(([key, { value }]): [string, number] => {
    const [, groupId = key] = /^celery-taskset-meta-(.*)\.s$/.exec(key) ?? [];
    return [groupId, Number(value)];
  });
  return Object.fromEntries(sizes);
}

describe('canvas against what Celery 5.2.6 publishes', () => {
  const names = goldenNames(/^(link|chain|group|chord)-/);

  it('finds the captures', () => {
    expect(names).to.have.length.above(20);
  });

  for (const name of names) {
    it(name, () => {
      const golden = readGolden(name);
      const tasks = encode(golden);
      const ours = comparable([tasks.map(toMessage), sizesOf(tasks)], (text) =>
        text.startsWith('generated-'),
      );
      const theirs = comparable([golden.messages.map(fromGolden), goldenSizes(golden)], (text) =>
        text.startsWith('f0000000-'),
      );
      expect(ours).to.deep.equal(theirs);
    });
  }
});
