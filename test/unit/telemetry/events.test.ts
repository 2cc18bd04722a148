import { expect } from 'chai';
import { OutboxEvents, type CreatedEvent } from '../../../lib/telemetry/events';
import { recordingLogger } from '../../support/log';

const EVENT: CreatedEvent = { taskId: '1', taskName: 't', orderingKey: null };

describe('events', () => {
  it('tell the listeners in the order in which they came, each once', () => {
    const told: string[] = [];
    const first = (): void => void told.push('first');
    const events = new OutboxEvents(recordingLogger());
    events
      .on('created', first)
      .on('created', ({ taskName }) => told.push(taskName))
      .on('created', first);
    events.emit('created', EVENT);
    expect(told).to.deep.equal(['first', 't']);
  });

  it('tell nobody when there is nobody', () => {
    new OutboxEvents(recordingLogger()).off('created', () => undefined).emit('created', EVENT);
  });

  it('log what a listener throws, rejects with or fails to be, and tell the next', async () => {
    const logger = recordingLogger();
    const events = new OutboxEvents(logger);
    const told: string[] = [];
    events.on('created', () => {
      throw new Error('thrown');
    });
    events.on('created', () => Promise.reject(new Error('rejected')));
    events.on('created', (event) => told.push(event.taskId));
    events.emit('created', EVENT);
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).to.deep.equal(['1']);
    expect(logger.lines.map(({ message, fields }) => [message, String(fields['error'])])).to.deep.equal([
      ['celery_outbox_signal_error', 'Error: thrown'],
      ['celery_outbox_signal_error', 'Error: rejected'],
    ]);
  });

  it('refuse an event that does not exist', () => {
    const events = new OutboxEvents(recordingLogger());
    expect(() => events.on('sent!' as never, () => undefined)).to.throw('"sent!", only: created');
  });
});
