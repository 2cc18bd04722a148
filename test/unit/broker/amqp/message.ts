import type { CeleryMessage } from '../../../../lib/message/celery-message';

/** A message as the encoder makes it. */
export function createMessage(parts: Partial<CeleryMessage> = {}): CeleryMessage {
  return {
    taskId: 'id-1',
    route: { exchange: '', routingKey: 'celery', queue: 'celery' },
    headers: { task: 'proj.tasks.add', id: 'id-1', retries: 200 },
    contextHeaders: [],
    properties: { correlationId: 'id-1', deliveryMode: 2, priority: 0 },
    body: Buffer.from('[[],{},{}]'),
    etaMs: null,
    chordSizes: {},
    ...parts,
  };
}
