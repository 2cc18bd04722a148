import type { Channel } from 'amqplib';
import { expect } from 'chai';
import { DelayedDelivery } from '../../../../lib/broker/amqp/delayed-delivery';
import type { Topology } from '../../../../lib/broker/amqp/topology';
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

/** @param refuse - the AMQP reply code with which the broker refuses an operation */
function setup(refuse: (operation: string) => number | null = () => null): Bundle {
  const asked: string[] = [];
  const unavailable: Error[] = [];
  const channel = new Proxy({} as Channel, {
    get: (_, operation: string) => (name: string, source?: unknown, key?: unknown) => {
      asked.push([operation, name, source, key].filter((part) => typeof part === 'string').join(' '));
      const code = refuse(operation);
      return code === null
        ? Promise.resolve()
        : Promise.reject(Object.assign(new Error('refused'), { code }));
    },
  });
  const topology = { run: (operation: (on: Channel) => Promise<unknown>) => operation(channel) };
  const delay = new DelayedDelivery(topology as unknown as Topology, queues, (error) =>
    unavailable.push(error),
  );
  return { delay, asked, unavailable };
}

const delayed = (ms: number, queue = 'wq', routingKey = queue): ReturnType<typeof createMessage> =>
  createMessage({ etaMs: NOW + ms, route: { exchange: 'ex', routingKey, queue } });
const bits = (digits: string): string => digits.padStart(28, '0').split('').join('.');

describe('delayed delivery', () => {
  it("writes the seconds as Celery's routing key of 28 bits", async () => {
    const { delay } = setup();
    const cases: [ms: number, digits: string, delayMs: number][] = [
      [10_000, '1010', 10_000],
      [1000, '1', 1000],
      [2700, '10', 2000],
      [(2 ** 28 - 1) * 1000, '1'.repeat(28), (2 ** 28 - 1) * 1000],
      [2 ** 40, '1'.repeat(28), (2 ** 28 - 1) * 1000],
    ];
    for (const [ms, digits, delayMs] of cases) {
      expect(await delay.detour(delayed(ms), NOW), String(ms)).to.deep.equal({
        exchange: 'celery_delayed_27',
        routingKey: `${bits(digits)}.wq`,
        delayMs,
      });
    }
  });

  it('is only for a later time, and for quorum queues with a topic exchange under their own key', async () => {
    const { delay, asked } = setup();
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
    for (const message of straight) expect(await delay.detour(message, NOW)).to.equal(null);
    expect(asked).to.deep.equal([]);
  });

  it('makes sure of the way once for each queue', async () => {
    const { delay, asked } = setup();
    await Promise.all([delay.detour(delayed(5000), NOW), delay.detour(delayed(9000), NOW)]);
    expect(asked).to.deep.equal([
      'checkExchange celery_delayed_27',
      'bindExchange ex celery_delayed_delivery #.wq',
      'bindQueue wq ex #.wq',
    ]);
    await delay.detour(delayed(5000, 'other'), NOW);
    expect(asked.slice(3)).to.include('bindQueue other ex #.other');
  });

  it('declares the levels where they are missing, as a worker would', async () => {
    const { delay, asked } = setup((operation) => (operation === 'checkExchange' ? 404 : null));
    expect(await delay.detour(delayed(5000), NOW)).not.to.equal(null);
    expect(asked.filter((line) => line.startsWith('assertQueue'))).to.have.length(28);
    expect(asked).to.include.members([
      'assertExchange celery_delayed_delivery topic',
      'bindQueue celery_delayed_27 celery_delayed_27 1.#',
      'bindExchange celery_delayed_26 celery_delayed_27 0.#',
      `bindQueue celery_delayed_0 celery_delayed_0 ${'*.'.repeat(27)}1.#`,
      `bindExchange celery_delayed_delivery celery_delayed_0 ${'*.'.repeat(27)}0.#`,
    ]);
  });

  it('sends straight, and says why once, where the way cannot be made', async () => {
    const { delay, unavailable } = setup((operation) => (operation === 'bindExchange' ? 403 : null));
    expect(await delay.detour(delayed(5000), NOW)).to.equal(null);
    expect(await delay.detour(delayed(5000), NOW)).to.equal(null);
    expect(unavailable).to.have.length(1);
  });
});
