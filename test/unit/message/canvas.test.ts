import { expect } from 'chai';
import { chain } from '../../../lib/message/chain';
import { chord } from '../../../lib/message/chord';
import { expandCanvas } from '../../../lib/message/expand-canvas';
import { group } from '../../../lib/message/group';
import { encodeJson } from '../../../lib/message/json';
import { signature } from '../../../lib/message/signature';
import { refusal } from '../../support/refusal';
import type { Canvas } from '../../../lib/message/canvas';
import type { CanvasOptions, SignatureOptions } from '../../../lib/message/task-options';

const now = new Date('2031-05-06T07:08:09.123Z');
const s = (name: string, options?: SignatureOptions) =>
  signature(name, [], {}, { taskId: `id-${name}`, ...options });
const [a, b, c, d, e] = [s('a'), s('b'), s('c'), s('d'), s('e')];

interface Dict {
  task: string;
  args: unknown[];
  kwargs: { tasks: Dict[]; header: Dict[]; body: Dict };
  options: Record<string, unknown>;
  immutable: boolean;
}
interface Sent {
  name: string;
  taskId: string;
  args: unknown;
  options: Record<string, unknown> & { chain?: Dict[]; chord?: Dict; chord_size?: Record<string, number> };
}

/** Applies a canvas and returns its messages as plain JSON. */
function apply(canvas: Canvas, options?: CanvasOptions) {
  let generated = 0;
  const { tasks, result } = expandCanvas(canvas, options, now, () => `new-${String(++generated)}`);
  return { sent: JSON.parse(encodeJson(tasks, 'tasks')) as Sent[], result };
}

const sent = (canvas: Canvas, options?: CanvasOptions): Sent[] => apply(canvas, options).sent;
const first = (canvas: Canvas, options?: CanvasOptions): Sent => {
  const [message] = sent(canvas, options);
  if (message === undefined) throw new Error('nothing was sent');
  return message;
};
const dict = (canvas: Canvas): Dict => JSON.parse(encodeJson(canvas.toCelery(), 'canvas')) as Dict;

/** `a | (b, c) > d`: the shape of a signature without its options. */
const shape = (signatureDict: Dict): unknown => {
  if (signatureDict.task === 'celery.chain') return signatureDict.kwargs.tasks.map(shape);
  if (signatureDict.task === 'celery.group') return { group: signatureDict.kwargs.tasks.map(shape) };
  if (signatureDict.task !== 'celery.chord') return signatureDict.task;
  return {
    header: signatureDict.kwargs.header.map(shape),
    body: shape(signatureDict.kwargs.body),
  };
};

describe('signature', () => {
  it("is Celery's dict, with integers of any size", () => {
    const sig = signature('t', [2n ** 64n], { k: -0 }, { queue: 'q', countdown: 5, priority: 6 }).immutable();
    expect(encodeJson(sig.toCelery(), 'x')).to.equal(
      '{"task":"t","args":[18446744073709551616],"kwargs":{"k":-0.0},' +
        '"options":{"queue":"q","countdown":5,"priority":6},"subtask_type":null,"immutable":true}',
    );
  });

  it('is a value: no method changes it, nor does a change of its arguments', () => {
    const args = [{ n: 1 }];
    const original = signature('t', args);
    const before = encodeJson(original.toCelery(), 'x');
    original.link(a);
    original.onError(b);
    original.set({ queue: 'q' });
    original.immutable();
    Object.assign(args[0] ?? {}, { n: 2 });
    expect(encodeJson(original.toCelery(), 'x')).to.equal(before);
  });

  it('collects callbacks, and lets later options win', () => {
    const { options } = dict(
      s('t', { queue: 'x', link: a })
        .link(b)
        .onError(c)
        .set({ queue: 'y', link: [d], linkError: e }),
    );
    expect(options['queue']).to.equal('y');
    expect((options['link'] as Dict[]).map(shape)).to.deep.equal(['a', 'b', 'd']);
    expect((options['link_error'] as Dict[]).map(shape)).to.deep.equal(['c', 'e']);
    expect(dict(s('t', { countdown: 5 }).set({ eta: now })).options).not.to.have.property('countdown');
    expect(dict(a.immutable().immutable(false)).immutable).to.equal(false);
  });

  it('refuses what no worker could run', () => {
    for (const name of ['', 5, 'x'.repeat(256), 'a\0']) {
      refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => signature(name as string));
    }
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => signature('t', {} as []));
    refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => signature('t', [NaN]));
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => a.link('b' as never));
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => a.onError({ task: 'b' } as never));
    for (const option of [
      'orderingKey',
      'idempotencyKey',
      'holdUntil',
      'chain',
      'chord',
      'groupId',
      'groupIndex',
    ]) {
      const error = refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => a.set({ [option]: 'x' }));
      expect(error.message).to.match(new RegExp(`^Option ${option} `));
    }
  });

  it('refuses an absolute expires where a worker of Celery 5.2 would fail on it', () => {
    const expiring = s('x', { expires: now });
    for (const embed of [
      () => a.link(expiring),
      () => sent(chain(a, expiring)),
      () => sent(chord([a], expiring)),
    ]) {
      expect(refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', embed).message).to.match(
        /expires of x must be .* seconds/,
      );
    }
    expect(first(expiring).options).to.deep.equal({ expires: '2031-05-06T07:08:09.123000+00:00' });
    expect(dict(s('x', { expires: 60 })).options).to.include({ expires: 60 });
  });
});

describe('applying a signature', () => {
  it('sends one task, with the options merged and its times absolute', () => {
    const { sent: messages, result } = apply(s('t', { queue: 'q', countdown: 9, link: a }), {
      priority: 3,
      countdown: 1,
      link: b,
      taskId: 'mine',
      parentId: 'p',
      rootId: 'r',
    });
    expect(messages).to.have.length(1);
    expect(messages[0]).to.deep.include({ taskId: 'mine', name: 't' });
    expect(messages[0]?.options).to.deep.include({
      eta: '2031-05-06T07:08:10.123000+00:00',
      queue: 'q',
      priority: 3,
      parent_id: 'p',
      root_id: 'r',
    });
    expect(messages[0]?.options).to.not.have.any.keys('task_id', 'countdown');
    expect((messages[0]?.options['link'] as Dict[]).map(shape)).to.deep.equal(['a', 'b']);
    expect(result).to.deep.equal({ groupId: null, taskIds: ['mine'] });
  });

  it('refuses options that the canvas itself gives, and what is no canvas', () => {
    for (const option of ['chain', 'chord', 'groupId', 'groupIndex']) {
      refusal('ERR_CELERY_OUTBOX_UNKNOWN_OPTION', () => apply(a, { [option]: [a] }));
    }
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => apply({ task: 'a' } as never));
  });
});

describe('chain', () => {
  it('takes steps or one array of them, and splices chains', () => {
    expect(dict(chain(a, b, c))).to.deep.equal(dict(chain([a, b, c])));
    expect(shape(dict(chain(chain(a, b), chain([c, chain(d, e)]))))).to.deep.equal(['a', 'b', 'c', 'd', 'e']);
    expect(first(chain(a))).to.deep.equal({ ...first(a), options: { chain: [] } });
  });

  it('makes a chord of a group, or a chord, with something behind it', () => {
    expect(shape(dict(chain(a, group([b, c]), d, e)))).to.deep.equal([
      'a',
      { header: ['b', 'c'], body: ['d', 'e'] },
    ]);
    expect(shape(dict(chain(group([a, b]), group([c, d]), e)))).to.deep.equal({
      header: ['a', 'b'],
      body: { header: ['c', 'd'], body: 'e' },
    });
    expect(shape(dict(chain(chord([a, b], c), d, e)))).to.deep.equal([
      { header: ['a', 'b'], body: ['c', 'd', 'e'] },
    ]);
    expect(shape(dict(chain(chord([a, b], chain(c, d)), group([a, b]))))).to.deep.equal([
      { header: ['a', 'b'], body: ['c', 'd'] },
      { group: ['a', 'b'] },
    ]);
  });

  it('replaces a group of one by its member, as Celery does', () => {
    const { options } = first(chain(a, group([group([chain(b, c)]), d])));
    expect(options.chain?.map(shape)).to.deep.equal([{ group: [['b', 'c'], 'd'] }]);
    expect(first(chain(a, group([chain(b, c)]), d)).options.chain?.map(shape)).to.deep.equal(['d', 'c', 'b']);
  });

  it('refuses to be empty or to have something else among its steps', () => {
    for (const make of [
      () => chain(),
      () => chain([]),
      () => chain(a, 'b' as never),
      () => chain([a, null as never]),
    ]) {
      expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', make).message).to.match(/chain/);
    }
  });

  it('gives each option to the tasks it is for', () => {
    const message = first(chain(a, b, signature('c')), {
      queue: 'q',
      countdown: 1,
      link: d,
      linkError: e,
      parentId: 'p',
      rootId: 'r',
      taskId: 'last',
    });
    const [last, middle] = message.options.chain ?? [];
    expect(message.options).to.include({ queue: 'q', parent_id: 'p', root_id: 'r' }).and.have.property('eta');
    expect(message.options).not.to.have.property('link');
    expect(last?.options)
      .to.have.keys('task_id', 'root_id', 'link', 'link_error')
      .and.include({ task_id: 'last' });
    expect(middle?.options).to.have.keys('task_id', 'root_id', 'link_error');
    expect(apply(chain(a, signature('b')), { taskId: 'last' }).result.taskIds).to.deep.equal(['last']);
    expect(apply(chain(a, b), { taskId: 'last' }).result.taskIds).to.deep.equal(['id-b']);
  });

  it('takes callbacks as a value, too', () => {
    const linked = chain(a, b).link(c).onError(d);
    expect(dict(linked).options).to.have.keys('link', 'link_error');
    const message = first(linked);
    expect(message.options).to.have.keys('chain', 'link_error');
    expect(message.options.chain?.[0]?.options).to.have.keys('task_id', 'link', 'link_error');
  });

  it('keeps its callbacks as a part of another chain, and gives those of its end to the body of a chord', () => {
    const [last, middle] = first(chain(chain(a, b).link(c).onError(d), e)).options.chain ?? [];
    expect(middle?.options).to.have.keys('task_id', 'link', 'link_error');
    expect(last?.options).to.have.keys('task_id');
    const { chord: body } = first(chain(chord([a], b), c).link(d)).options;
    expect(body?.kwargs.tasks.map(({ options }) => Object.keys(options))).to.deep.equal([
      ['task_id'],
      ['task_id'],
    ]);
    expect(body?.options).to.have.keys('chain', 'link');
  });

  it('that ends in a group has the results of its members', () => {
    const { result } = apply(chain(a, group([b, chain(c, d)])), { taskId: 'gid' });
    expect(result).to.deep.equal({ groupId: 'gid', taskIds: ['id-b', 'id-d'] });
  });

  it('of ten thousand steps is no trouble', () => {
    const steps = Array.from({ length: 10_000 }, (_, index) => signature('t', [index]));
    const message = first(chain(steps));
    expect(message.options.chain).to.have.length(9999);
    expect(message.options.chain?.[0]?.args).to.deep.equal([9999]);
  });
});

describe('group', () => {
  it('sends its members in order, nested ones too, and chains with the group at their end', () => {
    const { sent: messages, result } = apply(group([a, group([b, group([c])]), chain(d, e)]));
    expect(messages.map((message) => message.name)).to.deep.equal(['a', 'b', 'c', 'd']);
    expect(messages.map((message) => message.options['group_id'])).to.deep.equal([
      'new-1',
      'new-1',
      'new-1',
      undefined,
    ]);
    expect(messages[3]?.options.chain?.[0]?.options).to.deep.equal({ task_id: 'id-e', group_id: 'new-1' });
    expect(result).to.deep.equal({ groupId: 'new-1', taskIds: ['id-a', 'id-b', 'id-c', 'id-e'] });
  });

  it('gives options to every member, and errbacks to every step', () => {
    const [plain, chained] = sent(group([a, chain(b, c)]), { queue: 'q', rootId: 'r', linkError: e });
    expect(plain?.options).to.have.keys('queue', 'root_id', 'group_id', 'link_error');
    expect(chained?.options).to.have.keys('queue', 'root_id', 'link_error', 'chain');
    expect(chained?.options.chain?.[0]?.options).to.have.keys('task_id', 'root_id', 'group_id', 'link_error');
  });

  it('sends nothing when it is empty', () => {
    expect(apply(group([]))).to.deep.equal({ sent: [], result: { groupId: 'new-1', taskIds: [] } });
  });

  it('refuses a link, and members that are none', () => {
    expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => group([a]).link(b)).message).to.match(/chord/);
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => apply(group([a]), { link: b }));
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chain(a, group([b, c])).link(d));
    expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => group([a, 7 as never])).message).to.match(
      /^group\[1\]/,
    );
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => group(a as never));
  });
});

describe('chord', () => {
  it('tells the relay its size, also where the group id is not in the message', () => {
    const { sent: messages, result } = apply(chord([chain(a, b), chain(c, d)], e));
    expect(messages.map((message) => message.options.chord_size)).to.deep.equal([
      { 'new-1': 2 },
      { 'new-1': 2 },
    ]);
    expect(messages[0]?.options).to.have.keys('chain', 'chord_size');
    expect(messages[0]?.options.chain?.[0]?.options).to.include({ group_id: 'new-1', group_index: 0 });
    expect(result).to.deep.equal({ groupId: null, taskIds: ['id-e'] });
  });

  it('inside the header of another counts as one, and its messages carry both sizes', () => {
    const messages = sent(chord([chord([a, b], c), d], e));
    expect(messages.map((message) => message.options.chord_size)).to.deep.equal([
      { 'new-1': 2, 'new-3': 2 },
      { 'new-1': 2, 'new-3': 2 },
      { 'new-1': 2 },
    ]);
    expect(messages[0]?.options.chord?.options).to.deep.include({
      task_id: 'id-c',
      group_id: 'new-1',
      group_index: 0,
    });
    expect(messages[0]?.options.chord?.options['chord']).to.have.property('task', 'e');
  });

  it('takes a group as header or as body', () => {
    expect(sent(chord(group([a, b]), c))).to.deep.equal(sent(chord([a, b], c)));
    expect(apply(chord([a], group([b, c]))).result).to.deep.equal({
      groupId: 'new-2',
      taskIds: ['id-b', 'id-c'],
    });
  });

  it('gives options to header and body, but a countdown only to the body', () => {
    const { options } = first(chord([a], signature('b')), {
      queue: 'q',
      countdown: 5,
      expires: 60,
      link: c,
      linkError: d,
      taskId: 'body',
      parentId: 'p',
    });
    expect(options).to.include({
      queue: 'q',
      expires: '2031-05-06T07:09:09.123000+00:00',
      parent_id: 'p',
    });
    expect(options).not.to.have.any.keys('eta', 'link', 'link_error');
    expect(options.chord?.options)
      .to.have.keys('task_id', 'queue', 'countdown', 'expires', 'parent_id', 'link', 'link_error')
      .and.include({ task_id: 'body', countdown: 5, expires: 60 });
  });

  it('with an empty header sends the body with an empty list', () => {
    const { sent: messages, result } = apply(chord([], signature('sum', [1], {}, { taskId: 's' })));
    expect(messages).to.have.length(1);
    expect(messages[0]).to.deep.include({ name: 'sum', args: [[], 1], options: {} });
    expect(result.taskIds).to.deep.equal(['s']);
    expect(first(chord([], chain(a, b))).args).to.deep.equal([[]]);
    expect(sent(chord([], group([a, b.immutable()]))).map((message) => message.args)).to.deep.equal([
      [[]],
      [],
    ]);
    expect(first(chord([], chord([a], b))).args).to.deep.equal([[]]);
  });

  it('refuses a header that Celery would miscount', () => {
    const fan = chain(a, group([b, c]));
    for (const make of [
      () => chord([fan, d], e),
      () => chord([d, chord([a], group([b, c]))], e),
      () => chain(group([fan, d]), e),
    ]) {
      expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', make).message).to.match(/miscount/);
    }
    expect(first(chord([fan], e)).options.chord_size).to.deep.equal({ 'new-1': 2 });
  });

  it('refuses parts that are none', () => {
    expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chord([a], undefined as never)).message).to.match(
      /chord body/,
    );
    expect(refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chord(a as never, b)).message).to.match(
      /chord header/,
    );
  });

  it('encodes its body once, however wide the header and deep the nesting', function () {
    this.timeout(2000);
    const wide = Array.from({ length: 20 }, () => group(Array.from({ length: 8 }, () => signature('t'))));
    // 10^20 copies of the last body: refused by the length of a string, not by running out of time or memory.
    const error = refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => expandCanvas(chain(...wide, a), {}, now));
    expect(error.cause).to.be.instanceOf(RangeError);
  });
});
