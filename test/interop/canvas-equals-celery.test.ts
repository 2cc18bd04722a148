import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { chain, chord, group, signature, type CanvasOptions } from '../../lib';
import type { Canvas } from '../../lib/message/canvas';
import { CeleryOutboxError } from '../../lib/errors';
import { encodeCanvas } from '../../lib/message/encode-canvas';
import { encodeMessage } from '../../lib/message/encode-message';
import { formatInstant } from '../../lib/message/time';
import { celeryPython } from '../../services/celery';
import { createRandom } from '../support/random';
import { type AppliedCanvas, type CallOptions, type CanvasCall, RandomCanvas } from './capture/random-canvas';

const CALLS = 600;
const SEED = 20_261_118;
const NOW = new Date('2031-05-06T07:08:09Z');
/** Not those that say who sent it, or are only shown to people. */
const HEADERS = [
  'task',
  'id',
  'shadow',
  'expires',
  'group',
  'group_index',
  'retries',
  'timelimit',
  'root_id',
  'parent_id',
  'ignore_result',
];

interface CapturedMessage {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  readonly queue: string;
  readonly priority: number;
}
interface Capture {
  readonly messages: readonly CapturedMessage[];
  readonly sizes: Readonly<Record<string, number>>;
}
type Outcome = Capture | { readonly error: string };

describe('a canvas of any shape', function () {
  this.timeout(120_000);

  it('becomes the messages that Celery would have sent, or is refused', async () => {
    const canvases = new RandomCanvas(createRandom(SEED));
    const calls = Array.from({ length: CALLS }, () => canvases.next());
    const captures = await captureAll(calls);
    const counts = { equal: 0, refusedByCelery: 0, refusedByUs: 0 };
    for (const [index, call] of calls.entries()) {
      const celerys = captures[index]!;
      const ours = capture(call);
      if ('error' in celerys) counts.refusedByCelery++;
      else if ('error' in ours) {
        expect(ours.error, JSON.stringify(call)).to.match(/miscount/);
        counts.refusedByUs++;
      } else {
        expect(comparable(ours), JSON.stringify(call)).to.deep.equal(comparable(celerys));
        counts.equal++;
      }
    }
    expect(counts.equal).to.be.above(CALLS * 0.9);
  });
});

function capture({ canvas, apply }: AppliedCanvas): Outcome {
  let generated = 0;
  const newId = (): string => `generated-${String(++generated)}`;
  const settings = { maxPayloadBytes: 1e8, now: NOW, newId };
  try {
    const { tasks } = encodeCanvas(toCanvas(canvas), toOptions(apply), settings);
    const routing = { defaultQueue: 'celery', queues: {}, routes: [] };
    const encoded = tasks.map((task) =>
      encodeMessage(
        { ...task, traceHeaders: null, logContext: null },
        { routing, nestHeaders: false, origin: 'test' },
        NOW.getTime(),
      ),
    );
    const messages = encoded.map(({ headers, body, route, properties: { priority } }) => ({
      headers,
      body: JSON.parse(body.toString()) as unknown,
      queue: route.routingKey,
      priority,
    }));
    return {
      messages,
      sizes: Object.assign({}, ...encoded.map(({ chordSizes }) => chordSizes)) as Capture['sizes'],
    };
  } catch (error) {
    if (error instanceof CeleryOutboxError) return { error: error.message };
    throw error;
  }
}

async function captureAll(calls: readonly AppliedCanvas[]): Promise<Outcome[]> {
  const script = join(__dirname, 'capture/capture.py');
  const python = spawn(await celeryPython(), [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(python, 'close');
  python.stdin.end(JSON.stringify(calls.map(({ canvas, apply }) => ({ ...canvas, apply }))));
  const answer = await text(python.stdout);
  expect(await closed).to.deep.equal([0, null]);
  return JSON.parse(answer) as Outcome[];
}

function toCanvas(call: CanvasCall): Canvas {
  if (call.kind === 'signature') {
    return signature(call.task, call.args, {}, toOptions(call.options)).immutable(call.immutable);
  }
  const made =
    call.kind === 'chord'
      ? chord(call.header.map(toCanvas), toCanvas(call.body))
      : (call.kind === 'chain' ? chain : group)(call.tasks.map(toCanvas));
  return (call.errbacks ?? []).reduce<Canvas>((canvas, errback) => canvas.onError(toCanvas(errback)), made);
}

function toOptions(options: CallOptions): CanvasOptions {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      name.startsWith('link') ? (value as CanvasCall[]).map(toCanvas) : value,
    ]),
  );
}

/** Generated ids numbered in the order in which they are met, without what may differ. */
function comparable({ messages, sizes }: Capture): unknown {
  const ids = new Map<string, string>();
  const rename = (value: unknown): unknown => {
    if (typeof value === 'string' && value.startsWith('generated-')) {
      const id = ids.get(value) ?? `#${String(ids.size)}`;
      ids.set(value, id);
      return id;
    }
    if (Array.isArray(value)) return value.map(rename);
    if (typeof value !== 'object' || value === null) return value;
    // The queue for results of the rpc backend is left to who sends.
    const entries = Object.entries(value).filter(([name]) => name !== 'reply_to');
    return Object.fromEntries(
      entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, item]) => [name, rename(item)]),
    );
  };
  const renamed = messages.map(({ headers, body, queue, priority }) => ({
    body: rename(body),
    headers: rename(Object.fromEntries(HEADERS.map((name) => [name, headers[name]]))),
    eta: typeof headers['eta'] === 'string' ? formatInstant(headers['eta']) : null,
    queue,
    priority,
  }));
  return {
    messages: renamed,
    sizes: Object.entries(sizes)
      .map(([id, size]) => `${ids.get(id) ?? id}: ${size}`)
      .sort(),
  };
}
