import { expect } from 'chai';
import { canRunPrivately } from '../services/fixtures/platforms';
import { AmqpAdmin } from '../support/amqp-admin';
import {
  codesOf,
  createMessage,
  createMessages,
  idsOf,
  routeTo,
  tally,
  useBrokers,
} from '../support/amqp-broker';
import { type OwnRabbitmq, ownRabbitmq } from '../support/own-rabbitmq';

const UNROUTABLE = 'ERR_CELERY_OUTBOX_UNROUTABLE';
const REFUSED = 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
const ACCESS = 'ERR_CELERY_OUTBOX_BROKER_ACCESS';

// Every character that means something in a URL, and some that are more than one byte.
const PASSWORD = 'p/ä:@ß?#%é€ +&';
const VHOST = 'ten/ants & ünits?#%2F';

if (canRunPrivately()) {
  describe('RabbitMQ lets us do only some things', () => {
    const createBroker = useBrokers();
    let rabbitmq: OwnRabbitmq;
    let admin: AmqpAdmin;
    before(async () => {
      rabbitmq = await ownRabbitmq();
      await rabbitmq.evaluate(
        `rabbit_vhost:add(${binary(VHOST)}, <<"test">>)`,
        addUser('sender', { configure: '^$', write: '^(amq\\\\.default|open.*)$', read: '.*' }),
        addUser('outsider', null),
        addUser('tenant', { configure: '.*', write: '.*', read: '.*' }, VHOST),
      );
      admin = await AmqpAdmin.connect(rabbitmq.url);
    });
    after(async () => {
      await admin.close();
    });

    function urlOf(user: string, { password = PASSWORD, vhost = '/' } = {}): string {
      const url = new URL(rabbitmq.url);
      url.username = user;
      url.password = encodeURIComponent(password);
      return `${url.href}/${encodeURIComponent(vhost)}`;
    }

    it('without permission to configure, a missing queue is a fault that names it', async () => {
      const { broker, errors } = createBroker({ broker: urlOf('sender') });
      const [there, absent] = [await admin.queue(), admin.queueName()];
      const batch = [{ queue: there }, { queue: absent }, { queue: there }].map(createMessage);
      for (let call = 1; call <= 2; call++) {
        const outcomes = await broker.publish(batch);
        expect(codesOf(outcomes)).to.deep.equal(['published', REFUSED, 'published']);
        expect(outcomes[1])
          .to.have.nested.property('error.message')
          .that.matches(/ACCESS_REFUSED/)
          .and.includes(absent);
      }
      expect(await admin.count(there)).to.equal(4);
      // Somebody else may create it.
      await admin.channel.assertQueue(absent);
      expect(tally(await broker.publish(batch))).to.deep.equal({ published: 3 });
      expect(errors).to.deep.equal([]);
    });

    it('without permission to bind, a queue that is bound already gets its messages', async () => {
      const { exchange, queue } = await openBound();
      const queues = { [queue]: { exchange, exchangeType: 'topic' as const, routingKey: 'key' } };
      const { broker } = createBroker({ broker: urlOf('sender'), queues });
      const publish = async (): Promise<string[]> =>
        codesOf(await broker.publish([createMessage({ route: { exchange, routingKey: 'key', queue } })]));
      expect(await publish()).to.deep.equal(['published']);
      await admin.channel.unbindQueue(queue, exchange, '#');
      expect(await publish()).to.deep.equal([UNROUTABLE]);
    });

    it('without permission to write to an exchange, only its messages fail', async () => {
      const { broker, errors } = createBroker({ broker: urlOf('sender') });
      const { exchange } = await admin.bound('#');
      const { exchange: open, queue } = await openBound();
      const refused = createMessages(20, { route: routeTo(exchange, 'key') });
      const taken = [
        ...createMessages(20, { queue }),
        ...createMessages(20, { route: routeTo(open, 'key') }),
      ];
      const batch = refused.flatMap((message, index) => [taken[index * 2]!, message, taken[index * 2 + 1]!]);
      const outcomes = await broker.publish(batch);
      expect(codesOf(outcomes)).to.deep.equal(Array(20).fill(['published', REFUSED, 'published']).flat());
      expect(outcomes[1]).to.have.nested.property('error.message').that.matches(/403/).and.includes(exchange);
      expect((await admin.takeIds(queue)).sort()).to.deep.equal(idsOf(taken).sort());
      expect(errors).to.deep.equal([]);
    });

    it('a virtual host and a password may have any characters', async () => {
      const { broker } = createBroker({ broker: urlOf('tenant', { vhost: VHOST }) });
      expect(tally(await broker.publish(createMessages(3, { queue: 'any' })))).to.deep.equal({
        published: 3,
      });
    });

    it('who is not let in is told why, in the time for connecting', async () => {
      const refusals: Record<string, string> = {
        'wrong password': urlOf('sender', { password: 'wrong' }),
        'unknown user': urlOf('nobody'),
        'no such virtual host': urlOf('sender', { vhost: 'nowhere' }),
        'not in this virtual host': urlOf('outsider'),
      };
      for (const [what, broker] of Object.entries(refusals)) {
        const test = createBroker({ broker, connectTimeoutMs: 2_000 });
        const begin = performance.now();
        const outcomes = await test.broker.publish(createMessages(2, { queue: 'any' }));
        expect(codesOf(outcomes), what).to.deep.equal([ACCESS, ACCESS]);
        expect(performance.now() - begin, what).to.be.below(2_500);
        expect(test.errors, what).to.have.length(1);
      }
    });

    it('a message above the limit fails alone in the middle of 500', async () => {
      const [limit] =
        /\d+/.exec(await rabbitmq.evaluate('rabbit_misc:get_env(rabbit, max_message_size, 0)')) ?? [];
      await rabbitmq.evaluate('application:set_env(rabbit, max_message_size, 100000)');
      try {
        const { broker, errors } = createBroker({ broker: rabbitmq.url });
        const queue = admin.queueName();
        const batch = createMessages(500, { queue, body: Buffer.alloc(50_000) });
        batch[250] = createMessage({ queue, body: Buffer.alloc(100_001) });
        const outcomes = await broker.publish(batch);
        expect(tally(outcomes)).to.deep.equal({ published: 499, [REFUSED]: 1 });
        expect(outcomes[250])
          .to.have.nested.property('error.message')
          .that.matches(/100001 .*100000/);
        const arrived = new Set(await admin.takeIds(queue));
        expect(idsOf(batch).filter((id) => !arrived.has(id))).to.deep.equal([batch[250].taskId]);
        expect(errors).to.deep.equal([]);
      } finally {
        await rabbitmq.evaluate(`application:set_env(rabbit, max_message_size, ${limit!})`);
      }
    });

    /** One that the sender may write to. */
    async function openBound(): Promise<{ exchange: string; queue: string }> {
      const [exchange, queue] = [`open-${admin.exchangeName()}`, await admin.queue()];
      await admin.channel.assertExchange(exchange, 'topic');
      await admin.channel.bindQueue(queue, exchange, '#');
      return { exchange, queue };
    }
  });
}

interface Permissions {
  readonly configure: string;
  readonly write: string;
  readonly read: string;
}

function addUser(name: string, permissions: Permissions | null, vhost = '/'): string {
  const user = `<<"${name}">>`;
  const add = `rabbit_auth_backend_internal:add_user(${user}, ${binary(PASSWORD)}, <<"test">>)`;
  if (permissions === null) return add;
  const { configure, write, read } = permissions;
  const patterns = [configure, write, read].map((pattern) => `<<"${pattern}">>`).join(', ');
  return `${add}, rabbit_auth_backend_internal:set_permissions(${user}, ${binary(vhost)}, ${patterns}, <<"test">>)`;
}

/** A text as Erlang's binary of its bytes. */
function binary(text: string): string {
  return `<<${[...Buffer.from(text)].join()}>>`;
}
