import { expect } from 'chai';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { useAdmin } from '../support/amqp-admin';
import { codesOf, createMessage, useBrokers } from '../support/amqp-broker';

const INVALID = 'ERR_CELERY_OUTBOX_MESSAGE_INVALID';
const KIB = 1024;

describe('headers of more than 64 KiB', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();

  const withHeaders = (queue: string, sizes: Record<string, number>): CeleryMessage => {
    const carried = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, 'x'.repeat(size)]));
    return createMessage({
      queue,
      headers: { ...carried, headers: { tenant: 'acme' } },
      contextHeaders: Object.keys(sizes).filter((name) => name !== 'custom'),
    });
  };

  for (const [what, sizes, kept] of [
    [
      'fit as they are, just',
      { custom: 10, traceparent: 55, log_context: 65_000 },
      ['custom', 'traceparent', 'log_context'],
    ],
    [
      'do without the log context',
      { custom: 20 * KIB, traceparent: 20 * KIB, log_context: 60 * KIB },
      ['custom', 'traceparent'],
    ],
    [
      'do without the trace too',
      { custom: 40 * KIB, traceparent: 10, baggage: 30 * KIB, log_context: 10 },
      ['custom'],
    ],
    ['do without the trace, if there is no log context', { custom: 40 * KIB, baggage: 30 * KIB }, ['custom']],
  ] as const) {
    it(what, async () => {
      const { broker } = createBroker({ broker: bench.url });
      const queue = bench.admin.queueName();
      const batch = [createMessage({ queue }), withHeaders(queue, sizes), createMessage({ queue })];
      expect(codesOf(await broker.publish(batch))).to.deep.equal(['published', 'published', 'published']);
      const arrived = (await bench.admin.take(queue))[1]!.properties.headers ?? {};
      const { headers } = batch[1]!;
      for (const name of ['id', 'task', 'headers', ...kept])
        expect(arrived[name], name).to.deep.equal(headers[name]);
      expect(Object.keys(arrived)).to.have.members(['lang', 'id', 'task', 'headers', ...kept]);
    });
  }

  it('of the call itself are a fault, and of this message only', async () => {
    const { broker } = createBroker({ broker: bench.url });
    const queue = bench.admin.queueName();
    const batch = [
      createMessage({ queue }),
      withHeaders(queue, { custom: 70 * KIB, log_context: 10 }),
      createMessage({ queue, headers: { ['n'.repeat(256)]: 1 } }),
      createMessage({ queue, headers: { tooBig: 2n ** 64n } }),
      createMessage({ queue }),
    ];
    expect(codesOf(await broker.publish(batch))).to.deep.equal([
      'published',
      INVALID,
      INVALID,
      INVALID,
      'published',
    ]);
    expect(await bench.admin.count(queue)).to.equal(2);
  });
});
