import type { Channel } from 'amqplib';
import { expect } from 'chai';
import { DelayedDelivery, detourOf } from '../../../../lib/broker/amqp/delayed-delivery';
import type { Topology } from '../../../../lib/broker/amqp/topology';
import { MessageFault } from '../../../../lib/broker/broker-error';
import type { Route } from '../../../../lib/message/celery-message';
import type { QueueOptions } from '../../../../lib/message/routing';
import { createMessage } from './message';

const NOW = Date.parse('2031-05-06T07:08:09.123Z');
const queues: Record<string, QueueOptions> = {
  wq: { type: 'quorum', exchangeType: 'topic', exchange: 'ex', routingKey: 'wq' },
  other: { type: 'quorum', exchangeType: 'topic' },
  classic: { exchangeType: 'topic', exchange: 'ex' },
  direct: { type: 'quorum' },
  fanout: { type: 'quorum', exchangeType: 'fanout' },
};

interface Bundle {
  readonly delay: DelayedDelivery;
  /** What the broker was asked to do: operation and arguments. */
  readonly asked: string[];
  readonly unavailable: Error[];
}

/**
 * @param refuse - the AMQP reply code with which the broker refuses an operation
 * @param ensured - what becomes of a route that is looked at again
 */
function setup(
  refuse: (operation: string) => number | null = () => null,
  ensured: MessageFault | null = null,
): Bundle {
  const asked: string[] = [];
  const unavailable: Error[] = [];
  const channel = new Proxy({} as Channel, {
    get: (_, operation: string) => (name: string, source?: unknown, key?: unknown) => {
      const line = [operation, name, source, key].filter((part) => typeof part === 'string').join(' ');
      asked.push(line);
      const code = refuse(line);
      return code === null
        ? Promise.resolve()
        : Promise.reject(Object.assign(new Error('refused'), { code }));
    },
  });
  const topology = {
    run: (operation: (on: Channel) => Promise<unknown>) => operation(channel),
    forget: ({ queue }: Route) => asked.push(`forget ${queue!}`),
    ensure: ({ queue }: Route) => {
      asked.push(`ensure ${queue!}`);
      return Promise.resolve(ensured);
    },
  };
  const delay = new DelayedDelivery(topology as unknown as Topology, queues, (error) =>
    unavailable.push(error),
  );
  return { delay, asked, unavailable };
}

const delayed = (ms: number, queue = 'wq', routingKey = queue): ReturnType<typeof createMessage> =>
  createMessage({ etaMs: NOW + ms, route: { exchange: 'ex', routingKey, queue } });
const routeTo = (queue: string): Route => ({ exchange: 'ex', routingKey: queue, queue });
const bits = (digits: string): string => digits.padStart(28, '0').split('').join('.');

const BINDINGS = ['bindExchange ex celery_delayed_delivery #.wq', 'bindQueue wq ex #.wq'];
const LOOK = ['checkExchange celery_delayed_27', 'checkExchange celery_delayed_delivery'];

describe('delayed delivery', () => {
  it("writes the seconds as Celery's routing key of 28 bits", () => {
    const { delay } = setup();
    const cases: [ms: number, digits: string, delayMs: number][] = [
      [10_000, '1010', 10_000],
      [1000, '1', 1000],
      [2700, '10', 2000],
      [(2 ** 28 - 1) * 1000, '1'.repeat(28), (2 ** 28 - 1) * 1000],
      [2 ** 40, '1'.repeat(28), (2 ** 28 - 1) * 1000],
    ];
    for (const [ms, digits, delayMs] of cases) {
      const seconds = delay.secondsOf(delayed(ms), NOW);
      expect(detourOf(routeTo('wq'), seconds), String(ms)).to.deep.equal({
        exchange: 'celery_delayed_27',
        routingKey: `${bits(digits)}.wq`,
        delayMs,
      });
    }
  });

  it('is only for a later time, and for quorum queues with a topic exchange under their own key', () => {
    const { delay } = setup();
    const straight = [
      createMessage({ route: { exchange: 'ex', routingKey: 'wq', queue: 'wq' } }),
      delayed(0),
      delayed(999),
      delayed(-5000),
      delayed(5000, 'wq', 'another.key'),
      delayed(5000, 'classic'),
      delayed(5000, 'direct'),
      delayed(5000, 'fanout'),
      delayed(5000, 'unknown'),
      createMessage({ etaMs: NOW + 5000, route: { exchange: 'ex', routingKey: 'wq', queue: null } }),
    ];
    for (const message of straight) expect(delay.secondsOf(message, NOW)).to.equal(0);
  });

  it('looks for the levels once, and makes sure of the end of the way every time', async () => {
    const { delay, asked } = setup();
    expect(await Promise.all([delay.open(routeTo('wq')), delay.open(routeTo('other'))])).to.deep.equal([
      true,
      true,
    ]);
    expect(asked.filter((line) => line.startsWith('check'))).to.deep.equal(LOOK);
    expect(asked).to.include.members([...BINDINGS, 'bindQueue other ex #.other']);
    asked.length = 0;
    expect(await delay.open(routeTo('wq'))).to.equal(true);
    expect(asked).to.deep.equal(BINDINGS);
  });

  it('declares the levels where they are missing, as a worker would', async () => {
    const { delay, asked } = setup((line) => (line === LOOK[0] ? 404 : null));
    expect(await delay.open(routeTo('wq'))).to.equal(true);
    expect(asked.filter((line) => line.startsWith('assertQueue'))).to.have.length(28);
    expect(asked).to.include.members([
      'assertExchange celery_delayed_delivery topic',
      'bindQueue celery_delayed_27 celery_delayed_27 1.#',
      'bindExchange celery_delayed_26 celery_delayed_27 0.#',
      `bindQueue celery_delayed_0 celery_delayed_0 ${'*.'.repeat(27)}1.#`,
      `bindExchange celery_delayed_delivery celery_delayed_0 ${'*.'.repeat(27)}0.#`,
    ]);
  });

  it('looks at the queue and the levels again, when the end of the way is gone', async () => {
    let refusals = 0;
    const { delay, asked } = setup((line) => (line === BINDINGS[1] && ++refusals === 1 ? 404 : null));
    expect(await delay.open(routeTo('wq'))).to.equal(true);
    expect(asked).to.deep.equal([...LOOK, ...BINDINGS, 'forget wq', 'ensure wq', ...LOOK, ...BINDINGS]);
  });

  it('is a fault where the end of the way is gone and cannot be made again', async () => {
    const refused = new MessageFault('ERR_CELERY_OUTBOX_MESSAGE_REFUSED', 'not for us');
    const isGone = (line: string): number | null => (line === BINDINGS[1] ? 404 : null);
    expect(await setup(isGone, refused).delay.open(routeTo('wq'))).to.equal(refused);
    const { delay, unavailable } = setup(isGone);
    for (let call = 1; call <= 2; call++) {
      expect(await delay.open(routeTo('wq'))).to.have.property('code', 'ERR_CELERY_OUTBOX_UNROUTABLE');
    }
    expect(unavailable).to.deep.equal([]);
  });

  it('sends straight, and says why once, where the way cannot be made', async () => {
    const { delay, asked, unavailable } = setup((line) => (line === BINDINGS[0] ? 403 : null));
    expect(await delay.open(routeTo('wq'))).to.equal(false);
    const once = asked.length;
    expect(await delay.open(routeTo('wq'))).to.equal(false);
    expect([asked.length, unavailable.length]).to.deep.equal([once, 1]);
  });
});
