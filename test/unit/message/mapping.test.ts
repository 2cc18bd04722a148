import { expect } from 'chai';
import { chain } from '../../../lib/message/chain';
import { chord } from '../../../lib/message/chord';
import { encodeCanvas } from '../../../lib/message/encode-canvas';
import { encodeJson } from '../../../lib/message/json';
import { chunks, starmap, xmap } from '../../../lib/message/mapping';
import { signature } from '../../../lib/message/signature';
import { refusal } from '../../support/refusal';

const add = signature('proj.tasks.add', [], {}, { queue: 'q' });
const sum = signature('proj.tasks.sum');

const dict = (canvas: { toCelery(): unknown }): unknown =>
  JSON.parse(encodeJson(canvas.toCelery(), 'canvas'));
const embedded = {
  task: 'proj.tasks.add',
  args: [],
  kwargs: {},
  options: { queue: 'q' },
  subtask_type: null,
  immutable: false,
};

describe('xmap and starmap', () => {
  it("are one call of Celery's own task, with signature and items", () => {
    const call = { args: [], options: {}, subtask_type: null, immutable: true };
    expect(dict(xmap(add, [1, 'two', null]))).to.deep.equal({
      task: 'celery.map',
      ...call,
      kwargs: { task: embedded, it: [1, 'two', null] },
    });
    expect(dict(starmap(add, [[1, 2], []]))).to.deep.equal({
      task: 'celery.starmap',
      ...call,
      kwargs: { task: embedded, it: [[1, 2], []] },
    });
  });

  it('are signatures like any other, with items of any size', () => {
    const map = xmap(add, [2n ** 64n]).set({ queue: 'maps' });
    expect(encodeJson(chain(map, sum).toCelery(), 'x')).to.include('"it":[18446744073709551616]');
    const { tasks, result } = encodeCanvas(map, { taskId: 'm' }, { maxPayloadBytes: 1e4, now: new Date() });
    expect(tasks[0]).to.include({ taskName: 'celery.map', taskId: 'm', options: '{"queue":"maps"}' });
    expect(result.taskIds).to.deep.equal(['m']);
  });

  it('keep the items as they were', () => {
    const items = [[1]];
    const map = starmap(add, items);
    items.push([2]);
    expect(dict(map))
      .to.have.nested.property('kwargs.it')
      .deep.equal([[1]]);
  });

  it('refuse what is no signature, no array or no JSON', () => {
    for (const make of [xmap, starmap]) {
      for (const task of ['proj.tasks.add', chain(add, sum), null]) {
        refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => make(task as never, []));
      }
      refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => make(add, 'abc' as never));
      refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => make(add, [[NaN]]));
    }
  });
});

describe('chunks', () => {
  const items = [[1], [2], [3], [4], [5]];

  it('splits the items into starmaps of a size, the last with the rest', () => {
    const sizes = (size: number): number[] =>
      chunks(add, items, size).members.map(
        (member) => (dict(member) as { kwargs: { it: unknown[] } }).kwargs.it.length,
      );
    expect(sizes(1)).to.deep.equal([1, 1, 1, 1, 1]);
    expect(sizes(2)).to.deep.equal([2, 2, 1]);
    expect(sizes(5)).to.deep.equal([5]);
    expect(sizes(100)).to.deep.equal([5]);
    expect(chunks(add, [], 2).members).to.deep.equal([]);
    expect(chunks(add, items, 2).members.map(dict)).to.deep.equal([
      dict(starmap(add, [[1], [2]])),
      dict(starmap(add, [[3], [4]])),
      dict(starmap(add, [[5]])),
    ]);
  });

  it('is a group, so that a chord can follow', () => {
    let ids = 0;
    const settings = { maxPayloadBytes: 1e5, now: new Date(), newId: () => `id-${String(++ids)}` };
    const { tasks } = encodeCanvas(chord(chunks(add, items, 2), sum), undefined, settings);
    expect(tasks.map(({ taskName }) => taskName)).to.deep.equal(Array(3).fill('celery.starmap'));
    for (const { options } of tasks) expect(options).to.match(/"chord_size":\{"[^"]+":3\}/);
  });

  it('refuses sizes that split nothing', () => {
    for (const size of [0, -1, 1.5, NaN, Infinity, '2', null]) {
      const error = refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chunks(add, items, size as number));
      expect(error.message).to.match(/^chunks: size must be a whole number above 0/);
    }
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chunks(add, { length: 2 } as never, 1));
    refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => chunks('add' as never, items, 1));
  });
});
