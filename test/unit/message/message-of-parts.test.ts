import { expect } from 'chai';
import { type MessageParts, messageOfParts } from '../../../lib/message/message-of-parts';
import { refusal } from '../../support/refusal';

const plain: MessageParts = {
  body: [[1, 2n ** 64n], { k: -0 }, {}],
  exchange: '',
  routingKey: 'celery',
  headers: { lang: 'js', task: 'proj.tasks.add', id: 'id-1', big: 2n ** 60n },
  properties: { correlationId: 'c', replyTo: '' },
};
const message = (parts: Partial<MessageParts> = {}): ReturnType<typeof messageOfParts> =>
  messageOfParts({ ...plain, ...parts });
const invalid = (parts: Partial<MessageParts>): string =>
  refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => message(parts)).message;

describe('messageOfParts', () => {
  it('is the same message, with every digit', () => {
    expect(message()).to.deep.equal({
      taskId: 'id-1',
      route: { exchange: '', routingKey: 'celery', queue: 'celery' },
      headers: { lang: 'js', task: 'proj.tasks.add', id: 'id-1', big: 2n ** 60n },
      contextHeaders: [],
      properties: { correlationId: 'c', deliveryMode: 2, priority: 0 },
      body: Buffer.from('[[1,18446744073709551616],{"k":-0.0},{}]'),
      etaMs: null,
      chordSizes: {},
    });
  });

  it('has a reply queue, a correlation id and an exchange as they are given', () => {
    expect(message({ properties: { replyTo: 'r' } }).properties).to.include({
      correlationId: 'id-1',
      replyTo: 'r',
    });
    expect(message({ exchange: 'e', routingKey: 'k' }).route).to.deep.equal({
      exchange: 'e',
      routingKey: 'k',
      queue: null,
    });
  });

  it('has arguments where celery-node leaves them out', () => {
    for (const body of [
      [null, null, null],
      [undefined, undefined, undefined],
    ]) {
      expect(message({ body }).body.toString()).to.equal('[[],{},{}]');
    }
  });

  it('refuses what would stop a Python worker', () => {
    for (const body of [[], [[], {}], [[], {}, {}, {}], {}, 'x', null]) {
      expect(invalid({ body })).to.equal('The body must be [args, kwargs, embed]');
    }
    for (const id of [undefined, '', 5, null, 'x'.repeat(256)]) {
      expect(invalid({ headers: { ...plain.headers, id } })).to.match(/^The header id must be /);
    }
    for (const task of [undefined, '', 5, null]) {
      expect(invalid({ headers: { ...plain.headers, task } })).to.match(/^The task name must be /);
    }
    refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => message({ body: [[NaN], {}, {}] }));
  });
});
