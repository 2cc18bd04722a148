import { expect } from 'chai';
import type { Broker } from '../../lib/broker/port';
import type { CeleryOptions } from '../../lib/celery-options';
import type { CeleryMessage } from '../../lib/message/celery-message';
import { canRunPrivately } from '../services/fixtures/platforms';
import { AmqpAdmin } from '../support/amqp-admin';
import {
  codesOf,
  createMessage,
  idsOf,
  type MessageParts,
  type TestBroker,
  useBrokers,
} from '../support/amqp-broker';
import { methodsOf } from '../support/amqp-methods';
import { eventually } from '../support/eventually';
import { type OwnRabbitmq, ownRabbitmq } from '../support/own-rabbitmq';
import { createRecordingProxy } from '../support/recording-proxy';

const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';
const REFUSED = 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
const LEVELS = Array.from({ length: 28 }, (_, level) => level);
const FIRST = 'celery_delayed_27';
const nameOf = (level: number): string => (level < 0 ? 'celery_delayed_delivery' : `celery_delayed_${level}`);

if (canRunPrivately()) {
  describe("RabbitMQ delays tasks for quorum queues in Celery's way", () => {
    const createBroker = useBrokers();
    let rabbitmq: OwnRabbitmq;
    let admin: AmqpAdmin;
    /** A quorum queue `to`, bound to the topic exchange `via` with the key `key`. */
    let to: string;
    let via: string;
    before(async () => {
      rabbitmq = await ownRabbitmq();
      admin = await AmqpAdmin.connect(rabbitmq.url);
    });
    beforeEach(async () => {
      [to, via] = [admin.queueName(), admin.exchangeName()];
      await removeLevels();
    });
    after(async () => {
      await removeLevels();
      await admin.close();
    });

    async function removeLevels(): Promise<void> {
      for (const level of LEVELS) {
        await admin.channel.deleteQueue(nameOf(level));
        await admin.channel.deleteExchange(nameOf(level));
      }
      await admin.channel.deleteExchange(nameOf(-1));
    }
    function open(options: Partial<CeleryOptions> = {}): TestBroker {
      const queue = { type: 'quorum', exchange: via, exchangeType: 'topic', routingKey: 'key' } as const;
      return createBroker({ broker: rabbitmq.url, queues: { [to]: queue }, ...options });
    }
    /** A task for the queue that is due in so many milliseconds. */
    function due(ms: number, parts: MessageParts = {}): CeleryMessage {
      const route = { exchange: via, routingKey: 'key', queue: to };
      return createMessage({ route, etaMs: Date.now() + ms, ...parts });
    }
    /** What is sent then is not late by the time that this takes. */
    async function openWay(broker: Broker): Promise<void> {
      expect(codesOf(await broker.publish([due(60_500)]))).to.deep.equal(['published']);
    }
    const counts = async (...queues: string[]): Promise<number[]> =>
      Promise.all(queues.map((queue) => admin.count(queue)));

    it('as many whole seconds as are left, with headers unchanged', async () => {
      const { broker, errors } = open();
      await openWay(broker);
      const message = due(2_900, {
        headers: { eta: 'as it was', n: 300 },
        properties: { expiration: '60000' },
      });
      const published = Date.now();
      expect(codesOf(await broker.publish([message]))).to.deep.equal(['published']);
      expect(await counts(to, nameOf(1))).to.deep.equal([0, 1]);
      await eventually(async () => {
        expect(await counts(to)).to.deep.equal([1]);
      });
      expect(Date.now() - published).to.be.within(1_950, 3_900);
      const [arrived] = await admin.take(to);
      expect(arrived!.fields.routingKey).to.equal(`${'0.'.repeat(26)}1.0.key`);
      expect(arrived!.properties.headers).to.include(message.headers);
      expect(arrived!.properties.headers).to.have.nested.property('x-death[0].queue', nameOf(1));
      expect(arrived!.content.equals(message.body)).to.equal(true);
      expect(errors).to.deep.equal([]);
    });

    it('the seconds in bits, up to the most there can be, with an expiration only if it is not before', async () => {
      const { broker } = open();
      await openWay(broker);
      const seconds = 5 * 365 * 86_400;
      const far = due(2 ** 40);
      const early = due(seconds * 1000 + 500, { properties: { expiration: '1000' } });
      const late = due(10_500, { properties: { expiration: '10000' } });
      await broker.publish([far, early, late]);
      expect(await counts(nameOf(27), nameOf(3))).to.deep.equal([2, 1]);
      const [first, second] = await admin.take(nameOf(27));
      expect(first!.fields.routingKey).to.equal(`${'1.'.repeat(28)}key`);
      expect(second!.fields.routingKey).to.equal(`${bits(seconds)}.key`);
      expect(second!.properties.expiration).to.equal(undefined);
      const [third] = await admin.take(nameOf(3));
      expect(third!.fields.routingKey).to.equal(`${bits(10)}.key`);
      expect(third!.properties.expiration).to.equal('10000');
    });

    it('through the levels that a worker of Celery 5.5 would declare', async () => {
      await open().broker.publish([due(5_000)]);
      for (const level of LEVELS) {
        const name = nameOf(level);
        // RabbitMQ would refuse other arguments.
        await admin.channel.assertQueue(name, {
          durable: true,
          arguments: {
            'x-queue-type': 'quorum',
            'x-overflow': 'reject-publish',
            'x-message-ttl': 2 ** level * 1000,
            'x-dead-letter-exchange': nameOf(level - 1),
            'x-dead-letter-strategy': 'at-least-once',
          },
        });
        await admin.channel.assertExchange(name, 'topic', { durable: true });
      }
      await admin.channel.assertExchange(nameOf(-1), 'topic', { durable: true });
      const expected = LEVELS.flatMap((level) => [
        `${nameOf(level)} > ${nameOf(level)}: ${'*.'.repeat(27 - level)}1.#`,
        `${nameOf(level)} > ${nameOf(level - 1)}: ${'*.'.repeat(27 - level)}0.#`,
      ]);
      const ends = [`${nameOf(-1)} > ${via}: #.key`, `${via} > ${to}: #.key`, `${via} > ${to}: key`];
      expect((await bindings()).sort()).to.deep.equal([...expected, ...ends].sort());
    });

    it('straight, if it is due in less than a second, or for another key than that of the queue', async () => {
      const { broker } = open();
      const elsewhere = { route: { exchange: via, routingKey: 'other', queue: to } };
      const batch = [due(900), due(-5_000), due(60_000, { etaMs: null }), due(60_000, elsewhere)];
      expect(codesOf(await broker.publish(batch))).to.deep.equal([
        'published',
        'published',
        'published',
        UNROUTABLE,
      ]);
      expect(await counts(to)).to.deep.equal([3]);
    });

    it('straight, where we may not declare what it takes', async () => {
      await rabbitmq.evaluate(
        'rabbit_auth_backend_internal:add_user(<<"plain">>, <<"plain">>, <<"test">>)',
        'rabbit_auth_backend_internal:set_permissions(<<"plain">>, <<"/">>, <<"^(queue|exchange)-.*">>, <<".*">>, <<".*">>, <<"test">>)',
      );
      const { broker, errors } = open({ broker: rabbitmq.url.replace('guest:guest', 'plain:plain') });
      const batch = [due(60_000), due(60_000)];
      expect(codesOf(await broker.publish(batch))).to.deep.equal(['published', 'published']);
      expect(codesOf(await broker.publish(batch))).to.deep.equal(['published', 'published']);
      expect(await counts(to)).to.deep.equal([4]);
      // It is said once for each connection.
      expect(errors)
        .to.have.length(1)
        .and.have.nested.property('[0].message')
        .that.matches(/ACCESS_REFUSED/);
    });

    const broken: Record<string, () => Promise<unknown>> = {
      'its first exchange is deleted': () => admin.channel.deleteExchange(FIRST),
      'a level in the middle is deleted': () => admin.channel.deleteExchange(nameOf(13)),
      'a binding is missing': () => admin.channel.unbindExchange(nameOf(26), FIRST, '0.#'),
    };
    for (const [what, breakIt] of Object.entries(broken)) {
      it(`again, after ${what}: the publish after the fault makes the way`, async () => {
        const { broker } = open();
        const publish = async (): Promise<string[]> =>
          codesOf(await broker.publish([due(60_500), due(60_500)]));
        expect(await publish()).to.deep.equal(['published', 'published']);
        await breakIt();
        expect(await publish()).to.deep.equal([UNROUTABLE, UNROUTABLE]);
        expect(await publish()).to.deep.equal(['published', 'published']);
        expect(await counts(nameOf(5))).to.deep.equal([4]);
      });
    }

    const removed: Record<string, () => Promise<unknown>> = {
      'its queue is deleted': () => admin.channel.deleteQueue(to),
      'its queue is deleted and declared by somebody who does not delay': async () => {
        await admin.channel.deleteQueue(to);
        await admin.channel.assertQueue(to, { arguments: { 'x-queue-type': 'quorum' } });
        await admin.channel.bindQueue(to, via, 'key');
      },
      'the exchange of its queue is deleted': () => admin.channel.deleteExchange(via),
      'its last exchange is deleted': () => admin.channel.deleteExchange(nameOf(-1)),
      'its last binding is removed': () => admin.channel.unbindQueue(to, via, '#.key'),
    };
    for (const [what, remove] of Object.entries(removed)) {
      it(`again, after ${what}: the next publish makes the way`, async () => {
        const { broker, errors } = open();
        await openWay(broker);
        await remove();
        const batch = [due(2_500), due(2_500)];
        expect(codesOf(await broker.publish(batch))).to.deep.equal(['published', 'published']);
        await eventually(async () => {
          expect(await counts(to)).to.deep.equal([2]);
        });
        expect((await admin.takeIds(to)).sort()).to.deep.equal(idsOf(batch).sort());
        expect(errors).to.deep.equal([]);
      });
    }

    it('not any more, after its queue is deleted and we may not declare it: a fault', async () => {
      await rabbitmq.evaluate(
        'rabbit_auth_backend_internal:add_user(<<"binder">>, <<"binder">>, <<"test">>)',
        'rabbit_auth_backend_internal:set_permissions(<<"binder">>, <<"/">>, <<"^celery_delayed.*">>, <<".*">>, <<".*">>, <<"test">>)',
      );
      await admin.channel.assertExchange(via, 'topic');
      await admin.channel.assertQueue(to, { arguments: { 'x-queue-type': 'quorum' } });
      const { broker } = open({ broker: rabbitmq.url.replace('guest:guest', 'binder:binder') });
      const batch = [due(60_500), due(60_500)];
      expect(codesOf(await broker.publish(batch))).to.deep.equal(['published', 'published']);
      await admin.channel.deleteQueue(to);
      expect(codesOf(await broker.publish(batch))).to.deep.equal([REFUSED, REFUSED]);
    });

    it('with one look at the way for all messages of a call', async () => {
      const proxy = await createRecordingProxy(rabbitmq.url);
      const { broker } = open({ broker: proxy.url });
      for (let call = 0; call < 3; call++) {
        await broker.publish(Array.from({ length: 20 }, () => due(60_500)));
      }
      await broker.close();
      const names = proxy.take().flatMap(methodsOf);
      await proxy.close();
      const count = (name: string): number => names.filter((method) => method.name === name).length;
      expect(count('basic.publish')).to.equal(60);
      // One for each level, one for the queue's own key, and one for each call.
      expect(count('queue.bind')).to.equal(LEVELS.length + 1 + 3);
      const declared = names.filter(({ name, isPassive }) => name === 'queue.declare' && !isPassive);
      expect(declared).to.have.length(LEVELS.length + 1);
    });

    /** All bindings of the way, as `source > destination: key`. */
    async function bindings(): Promise<string[]> {
      const list = await rabbitmq.evaluate(
        'Bs = rabbit_binding:list(<<"/">>)',
        'F = fun({binding, {resource, _, _, S}, K, {resource, _, _, D}, _}) -> io_lib:format("~s > ~s: ~s~n", [S, D, K]) end',
        'list_to_binary(lists:map(F, Bs))',
      );
      const lines = (JSON.parse(/"[^"]*"/s.exec(list.replaceAll('\n', ''))![0]) as string).split('\n');
      return lines.filter(
        (line) =>
          /^(celery_delayed|exchange)/.test(line) &&
          [via, FIRST, 'celery_delayed'].some((name) => line.includes(name)),
      );
    }
  });
}

function bits(seconds: number): string {
  return Array.from(seconds.toString(2).padStart(28, '0')).join('.');
}
