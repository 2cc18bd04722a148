import { expect } from 'chai';
import { BrokerOutage } from '../../lib/broker/broker-error';
import { useAdmin } from '../support/amqp-admin';
import {
  codesOf,
  createMessage,
  createMessages,
  tally,
  type TestBroker,
  useBrokers,
} from '../support/amqp-broker';
import { createCertificate } from '../support/certificate';
import { closedPort } from '../support/closed-port';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import { rejection } from '../support/rejection';
import { createSilentServer } from '../support/silent-server';
import { createSwitchProxy } from '../support/switch-proxy';
import { CLOSE_FRAME, createWiredProxy } from '../support/wired-proxy';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const CONNECT_TIMEOUT_MS = 300;

/** The method connection.open-ok. */
const OPEN_OK = Buffer.from([0, 10, 0, 41]);

describe('RabbitMQ cannot be reached', () => {
  const bench = useAdmin();
  const createBroker = useBrokers();
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });

  function using<T extends { close(): Promise<void> }>(resource: T): T {
    closers.push(() => resource.close());
    return resource;
  }
  const open = (broker: string, brokerOptions = {}): TestBroker =>
    createBroker({ broker, connectTimeoutMs: CONNECT_TIMEOUT_MS, brokerOptions });

  /** Both calls are answered in time with an outage, and it is reported once for each attempt. */
  async function expectOutage({ broker, errors }: TestBroker): Promise<void> {
    const begin = performance.now();
    const error = await rejection(OUTAGE, broker.connect());
    expect(error).to.be.instanceOf(BrokerOutage);
    expect(codesOf(await broker.publish(createMessages(2, { queue: 'any' })))).to.deep.equal([
      OUTAGE,
      OUTAGE,
    ]);
    // The second one may have been another attempt.
    expect(performance.now() - begin).to.be.below(2 * CONNECT_TIMEOUT_MS + 300);
    expect(errors.length).to.be.within(1, 2);
    expect(errors[0]).to.equal(error);
  }

  it('where nobody listens', async () => {
    await expectOutage(open(`amqp://127.0.0.1:${await closedPort()}`));
  });

  it('at a server that never answers', async () => {
    const { port } = using(await createSilentServer());
    const url = `amqp://127.0.0.1:${port}`;
    await expectOutage(open(url));
    await eventually(() => {
      expect(openSockets(url)).to.equal(0);
    });
  });

  it('at a server that never answers TLS', async () => {
    const { port } = using(await createSilentServer());
    await expectOutage(open(`amqps://127.0.0.1:${port}`));
  });

  it('at a server that speaks something else', async () => {
    const talk = (text: string) => (socket: { end(text: string): unknown }) => socket.end(text);
    for (const text of [
      'HTTP/1.1 400 Bad Request\r\n\r\n',
      'AMQP\x00\x00\x09\x01',
      '\x01\x00\x00\x00\x00\x00\x04junk\xce',
    ])
      await expectOutage(open(`amqp://127.0.0.1:${using(await createSilentServer(talk(text))).port}`));
  });

  it('with TLS where there is none', async () => {
    await expectOutage(open(bench.url.replace('amqp:', 'amqps:')));
  });

  const certificate = createCertificate();
  if (certificate !== undefined) {
    it('in plain where there is TLS; by a certificate that is not trusted; but by one that is', async () => {
      const { url } = using(await createSwitchProxy(bench.url, certificate));
      await expectOutage(open(url));
      const secure = url.replace('amqp:', 'amqps:');
      await expectOutage(open(secure));
      const { broker } = createBroker({ broker: secure, brokerOptions: { ca: certificate.cert } });
      const queue = bench.admin.queueName();
      expect(tally(await broker.publish(createMessages(2_000, { queue })))).to.deep.equal({
        published: 2_000,
      });
      expect(await bench.admin.count(queue)).to.equal(2_000);
    });
  }

  it('many publishes make few attempts', async () => {
    const server = using(await createSilentServer((socket) => socket.destroy()));
    const { broker, errors } = open(`amqp://127.0.0.1:${server.port}`);
    const publish = (): ReturnType<typeof broker.publish> =>
      broker.publish(createMessages(1, { queue: 'any' }));
    const outcomes = await Promise.all(Array.from({ length: 500 }, publish));
    expect(tally(outcomes.flat())).to.deep.equal({ [OUTAGE]: 500 });
    expect(server.accepted).to.equal(1);
    for (let call = 0; call < 500; call++) expect(tally(await publish())).to.deep.equal({ [OUTAGE]: 1 });
    expect(server.accepted).to.be.below(6);
    expect(errors).to.have.length(server.accepted);
  });

  it('when it closes a connection in the moment it has opened it', async () => {
    let connections = 0;
    const proxy = using(
      await createWiredProxy(bench.url, (client, server) => {
        const isClosed = ++connections === 1;
        client.pipe(server);
        server.on('data', (data) => {
          client.write(isClosed && data.includes(OPEN_OK) ? Buffer.concat([data, CLOSE_FRAME]) : data);
        });
      }),
    );
    const { broker } = open(proxy.url);
    const queue = bench.admin.queueName();
    expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal([OUTAGE]);
    expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal(['published']);
    expect(connections).to.equal(2);
  });

  it('when it closes every connection in the moment it has opened it: many publishes make few attempts', async () => {
    let connections = 0;
    const proxy = using(
      await createWiredProxy(bench.url, (client, server) => {
        connections += 1;
        client.pipe(server);
        server.on('data', (data) => {
          client.write(data.includes(OPEN_OK) ? Buffer.concat([data, CLOSE_FRAME]) : data);
        });
      }),
    );
    const { broker } = open(proxy.url);
    const begin = performance.now();
    for (let call = 0; call < 500; call++) {
      expect(codesOf(await broker.publish(createMessages(1, { queue: 'any' })))).to.deep.equal([OUTAGE]);
    }
    // Pauses of at least 50 ms lie between them, and longer ones with each.
    expect(connections).to.be.below(4 + (performance.now() - begin) / 50);
  });

  it('goes on after a time of refusals', async () => {
    const proxy = using(await createSwitchProxy(bench.url));
    const { broker } = open(proxy.url);
    const queue = bench.admin.queueName();
    proxy.hold('requests');
    expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal([OUTAGE]);
    proxy.release();
    await eventually(async () => {
      expect(codesOf(await broker.publish([createMessage({ queue })]))).to.deep.equal(['published']);
    });
  });
});
