import type { Socket } from 'node:net';
import { inspect } from 'node:util';
import { expect } from 'chai';
import type Redis from 'ioredis';
import type { CeleryOptions } from '../../lib/celery-options';
import { startServices, type Services } from '../../services';
import { createCertificate } from '../support/certificate';
import { closedPort } from '../support/closed-port';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { codesOf, createAdmin, createBroker, createMessage, type TestBroker } from '../support/redis-broker';
import { rejection } from '../support/rejection';
import { createSilentServer, type SilentServer } from '../support/silent-server';
import { createSwitchProxy } from '../support/switch-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const ACCESS = 'ERR_CELERY_OUTBOX_BROKER_ACCESS';

describe('the Redis broker connects', () => {
  // Not the shared server: it gets accounts and passwords here.
  let services: Services<'redis'>;
  let redis: Redis;
  let host: string;
  let opened: TestBroker[];

  before(async function () {
    this.timeout(60_000);
    services = await startServices(['redis']);
    redis = createAdmin(services.redis.url);
    ({ host } = new URL(services.redis.url));
  });
  beforeEach(() => {
    opened = [];
  });
  afterEach(async () => {
    for (const { broker } of opened) await broker.close();
    await redis.flushall();
  });
  after(async () => {
    redis.disconnect();
    await services.close();
  });

  function open(broker: string, options: Partial<CeleryOptions> = {}): TestBroker {
    const made = createBroker({ broker, ...options });
    opened.push(made);
    return made;
  }

  /** Publishes one message that must not be taken; the secret must not show anywhere. */
  async function refused(code: string, url: string, options?: Partial<CeleryOptions>): Promise<Error> {
    const others = openSockets(url);
    const { broker, errors } = open(url, options);
    const [outcome] = await broker.publish([createMessage()]);
    if (outcome?.status !== 'outage') throw new Error('expected an outage');
    expect(outcome.error.code).to.equal(code);
    expect(errors).to.deep.equal([outcome.error]);
    expect(inspect(outcome.error, { depth: 10, showHidden: true })).to.not.include('secret');
    await eventually(() => {
      expect(openSockets(url)).to.equal(others);
    });
    return outcome.error;
  }

  describe('with a login', () => {
    const password = 's/e:c#r@t%';

    before(async () => {
      await redis.call('ACL', 'SETUSER', 'relay', 'on', `>${password}`, '~mail*', '+@all');
      await redis.call('ACL', 'SETUSER', 'pusher', 'on', '>secret', '~*', '-@all', '+lpush');
    });
    after(async () => {
      await redis.call('ACL', 'DELUSER', 'relay', 'pusher');
    });

    it('in the URL, percent-encoded, to a database in its path', async () => {
      const { broker, errors } = open(`redis://relay:${encodeURIComponent(password)}@${host}/3`);
      expect(codesOf(await broker.publish([createMessage({ queue: 'mail' })]))).to.deep.equal(['published']);
      expect(errors).to.deep.equal([]);
      const other = createAdmin(`${services.redis.url}/3`);
      expect(await other.llen('mail')).to.equal(1);
      expect(await redis.llen('mail')).to.equal(0);
      other.disconnect();
    });

    it('in brokerOptions', async () => {
      const brokerOptions = { username: 'relay', password, db: 3, connectionName: 'the-relay' };
      const { broker } = open(services.redis.url, { brokerOptions });
      expect(codesOf(await broker.publish([createMessage({ queue: 'mail' })]))).to.deep.equal(['published']);
      expect(await redis.client('LIST')).to.match(/name=the-relay .* db=3 .* user=relay/);
    });

    it('that may do nothing but LPUSH', async () => {
      const { broker } = open(`redis://pusher:secret@${host}`);
      expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
    });

    it('whose keys do not include a queue: that message is refused, the others are not', async () => {
      const { broker, errors } = open(`redis://relay:${encodeURIComponent(password)}@${host}`);
      const queues = ['mail', 'other', 'mail2'];
      const outcomes = await broker.publish(queues.map((queue) => createMessage({ queue })));
      expect(codesOf(outcomes)).to.deep.equal([
        ...['published', 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED', 'published'],
      ]);
      expect(outcomes[1])
        .to.have.nested.property('error.message')
        .that.matches(/"other": NOPERM /);
      expect(errors).to.deep.equal([]);
    });

    it('but not with a wrong one', async () => {
      const error = await refused(ACCESS, `redis://relay:secret@${host}`);
      expect(error.message).to.match(/^Redis at \S+ refused the login: WRONGPASS /);
    });

    it('but not with one that the server does not ask for: it may be the wrong server', async () => {
      const error = await refused(ACCESS, `redis://:secret@${host}`);
      expect(error.message).to.include('ERR AUTH');
    });

    it('but not without one that the server asks for', async () => {
      await redis.config('SET', 'requirepass', 'secret');
      try {
        await refused(ACCESS, services.redis.url);
      } finally {
        await redis.config('SET', 'requirepass', '');
      }
    });

    it('and notices that it has been taken away', async () => {
      const { broker, errors } = open(`redis://relay:${encodeURIComponent(password)}@${host}`);
      await broker.connect();
      await redis.call('ACL', 'DELUSER', 'relay');
      try {
        await eventually(() => {
          expect(errors).to.have.length(1);
        });
        expect(codesOf(await broker.publish([createMessage({ queue: 'mail' })]))).to.deep.equal([ACCESS]);
      } finally {
        await redis.call('ACL', 'SETUSER', 'relay', 'on', `>${password}`, '~mail*', '+@all');
      }
    });
  });

  for (const db of ['4000', 'celery']) {
    it(`but not to database ${db}, and publishes nothing into another`, async () => {
      await refused(ACCESS, `${services.redis.url}/${db}`);
      expect(await redis.llen('celery')).to.equal(0);
    });
  }

  it('but not to a closed port', async () => {
    const error = await refused(OUTAGE, `redis://:secret@127.0.0.1:${String(await closedPort())}`);
    expect(error.message).to.include('ECONNREFUSED');
  });

  it('but not with options that ioredis does not take', async () => {
    const brokerOptions = { sentinels: [{ host: '127.0.0.1', port: 1 }] };
    const error = await refused(OUTAGE, services.redis.url, { brokerOptions });
    expect(error.message).to.include('name of master');
  });

  describe('but not to a server that', () => {
    let server: SilentServer;
    let url: string;
    let onSocket: (socket: Socket) => void;

    beforeEach(async () => {
      onSocket = () => undefined;
      server = await createSilentServer((socket) => {
        onSocket(socket);
      });
      url = `redis://:secret@127.0.0.1:${String(server.port)}`;
    });
    afterEach(async () => {
      await server.close();
    });

    it('never answers: it is given up in time, in one attempt for all', async () => {
      const { broker, errors } = open(url, { connectTimeoutMs: 100 });
      const outcomes = await Promise.all([
        broker.publish([createMessage()]),
        broker.publish([createMessage(), createMessage()]),
        rejection(OUTAGE, broker.connect()),
      ]);
      expect(codesOf([...outcomes[0], ...outcomes[1]])).to.deep.equal([OUTAGE, OUTAGE, OUTAGE]);
      expect(outcomes[2].message).to.include('was not ready within 100 ms');
      expect(errors).to.have.length(1);
      expect(server.accepted).to.equal(1);
      await eventually(() => {
        expect(openSockets(url)).to.equal(0);
      });
    });

    it('never answers: close() does not wait for it', async () => {
      const { broker, errors } = open(url, { connectTimeoutMs: 60_000, sendTimeoutMs: 60_000 });
      const publishing = broker.publish([createMessage()]);
      await eventually(() => {
        expect(server.accepted).to.equal(1);
      });
      await broker.close();
      const [outcome] = await publishing;
      expect(outcome).to.have.nested.property('error.message').that.includes('closed');
      expect(openSockets(url)).to.equal(0);
      expect(errors, 'it is no error').to.deep.equal([]);
    });

    it('was not even begun to be connected to: close() ends that too', async () => {
      const { broker } = open(url);
      const publishing = broker.publish([createMessage()]);
      await broker.close();
      expect(codesOf(await publishing)).to.deep.equal([OUTAGE]);
      expect(openSockets(url)).to.equal(0);
    });

    it('hangs up', async () => {
      onSocket = (socket) => socket.end();
      await refused(OUTAGE, url);
    });

    it('is no Redis', async () => {
      onSocket = (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
      await refused(OUTAGE, url);
    });

    it('still loads its data', async () => {
      onSocket = (socket) => {
        socket.on('data', (data) => {
          const commands = String(data).match(/^\*/gm)?.length ?? 0;
          socket.write('-LOADING Redis is loading the dataset in memory\r\n'.repeat(commands));
        });
      };
      const error = await refused(OUTAGE, url.replace(':secret@', ''));
      expect(error.message).to.include('is not ready: LOADING');
    });

    it('quotes the password in its refusal', async () => {
      onSocket = (socket) => {
        socket.on('data', () => {
          socket.write("-ERR unknown command 'auth', with args beginning with: 'secret' \r\n+PONG\r\n");
        });
      };
      await refused(ACCESS, url);
    });
  });

  describe('over TLS', () => {
    const certificate = createCertificate();
    if (certificate === undefined) return;

    it('when the certificate is known, and not when it is not', async () => {
      const proxy = await createSwitchProxy(services.redis.url, certificate);
      try {
        const url = `rediss://localhost:${String(proxy.port)}/1`;
        const tls = { ca: certificate.cert };
        const { broker, errors } = open(url, { brokerOptions: { tls } });
        expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
        expect(errors).to.deep.equal([]);
        for (const query of ['', '?ssl_cert_reqs=CERT_REQUIRED', '?ssl_cert_reqs=CERT_OPTIONAL']) {
          const error = await refused(OUTAGE, `${url}${query}`);
          expect(error.message, query).to.include('self-signed certificate');
        }
        const trusting = open(`${url}?ssl_cert_reqs=CERT_NONE`);
        expect(codesOf(await trusting.broker.publish([createMessage()]))).to.deep.equal(['published']);
      } finally {
        for (const { broker } of opened) await broker.close();
        await proxy.close();
      }
    });
  });
});
