import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { BrokerOutage } from '../../../lib/broker/broker-error';
import { Reconnector, type Replaceable } from '../../../lib/broker/reconnector';
import { createGate } from '../../support/gate';
import { rejection } from '../../support/rejection';

const OUTAGE = 'ERR_CELERY_OUTBOX_BROKER_OUTAGE';
const CLOSE_TIMEOUT_MS = 1000;

class Connection implements Replaceable {
  isEnded = false;
  closedWithin: number | undefined;

  close(withinMs: number): Promise<void> {
    this.isEnded = true;
    this.closedWithin = withinMs;
    return Promise.resolve();
  }
}

interface Attempt {
  resolve(connection: Connection): void;
  reject(error: Error): void;
}

describe('Reconnector', () => {
  let clock: SinonFakeTimers;
  let attempts: Attempt[];
  let failures: unknown[];
  let connections: Reconnector<Connection>;

  beforeEach(() => {
    clock = useFakeTimers();
    attempts = [];
    failures = [];
    connections = new Reconnector<Connection>({
      name: 'the server',
      open: (signal) =>
        new Promise((resolve, reject) => {
          attempts.push({ resolve, reject });
          signal.addEventListener('abort', () => {
            reject(new BrokerOutage('stopped'));
          });
        }),
      onFailure: (error) => failures.push(error),
      closeTimeoutMs: CLOSE_TIMEOUT_MS,
    });
  });
  afterEach(() => {
    clock.restore();
  });

  async function connected(): Promise<Connection> {
    const connection = new Connection();
    const connecting = connections.connect();
    attempts.at(-1)?.resolve(connection);
    expect(await connecting).to.equal(connection);
    return connection;
  }
  async function refused(): Promise<Error> {
    const error = new BrokerOutage('refused');
    const connecting = connections.connect();
    attempts.at(-1)?.reject(error);
    expect(await rejection(OUTAGE, connecting)).to.equal(error);
    return error;
  }

  it('opens nothing before it is needed, and then one connection for all', async () => {
    expect(attempts).to.have.length(0);
    const waiting = [connections.connect(), connections.use((connection) => Promise.resolve(connection))];
    const connection = new Connection();
    attempts[0]?.resolve(connection);
    expect(await Promise.all(waiting)).to.deep.equal([connection, connection]);
    expect(await connections.connect()).to.equal(connection);
    expect(attempts).to.have.length(1);
  });

  it('replaces a lost connection at once', async () => {
    const lost = await connected();
    lost.isEnded = true;
    expect(await connected()).not.to.equal(lost);
    expect(failures).to.deep.equal([]);
  });

  it('replaces it at once each time, if it was of use or open for a second', async () => {
    for (let loss = 0; loss < 5; loss++) {
      const used = await connected();
      await connections.use(() => Promise.resolve());
      used.isEnded = true;
      const old = await connected();
      clock.tick(1000);
      old.isEnded = true;
    }
    expect(attempts).to.have.length(10);
  });

  /** One that is lost in the first use of it. */
  async function dropped(): Promise<void> {
    const connection = await connected();
    const using = connections.use(() => {
      connection.isEnded = true;
      return Promise.reject(new BrokerOutage('lost'));
    });
    expect((await rejection(OUTAGE, using)).message).to.equal('lost');
  }
  async function expectBackoff(most: number): Promise<void> {
    const { length } = attempts;
    clock.tick(most / 2 - 1);
    const { message } = await rejection(OUTAGE, connections.connect());
    expect(message).to.equal('the server drops connections that were just opened');
    expect(attempts).to.have.length(length);
    clock.tick(most / 2 + 1);
  }

  it('leaves a server alone that drops what it has just accepted, longer each time', async () => {
    await dropped();
    for (const most of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      await dropped();
      await expectBackoff(most);
    }
    // The connections have reported it themselves.
    expect(failures).to.deep.equal([]);
  });

  it('goes on with the back-off when a server that refused accepts, and drops', async () => {
    await refused();
    clock.tick(100);
    await dropped();
    await expectBackoff(200);
  });

  it('finds out of a drop when it is to connect, and from work that says nothing of it', async () => {
    (await connected()).isEnded = true;
    (await connected()).isEnded = true;
    await rejection(OUTAGE, connections.connect());
    await expectBackoff(100);
    const connection = await connected();
    await connections.use(() => {
      connection.isEnded = true;
      return Promise.resolve();
    });
    await expectBackoff(200);
  });

  it('repeats a failure until the back-off has passed, and reports it once', async () => {
    const error = await refused();
    expect(await rejection(OUTAGE, connections.connect())).to.equal(error);
    expect(
      await rejection(
        OUTAGE,
        connections.use(() => Promise.resolve()),
      ),
    ).to.equal(error);
    expect([attempts.length, failures]).to.deep.equal([1, [error]]);
    clock.tick(100);
    const second = await refused();
    expect([attempts.length, failures]).to.deep.equal([2, [error, second]]);
    clock.tick(200);
    await connected();
  });

  it('forgets failures when a connection was of use', async () => {
    await refused();
    clock.tick(100);
    const connection = await connected();
    await connections.use(() => Promise.resolve());
    connection.isEnded = true;
    await refused();
    clock.tick(100);
    await connected();
  });

  it('closes without ever having connected', async () => {
    await connections.close();
    expect((await rejection(OUTAGE, connections.connect())).message).to.equal(
      'The connection to the server was closed',
    );
    expect(attempts).to.have.length(0);
  });

  it('closes an attempt at once, and reports nothing of it', async () => {
    const using = rejection(
      OUTAGE,
      connections.use(() => Promise.resolve()),
    );
    await connections.close();
    expect((await using).message).to.equal('stopped');
    expect(failures).to.deep.equal([]);
  });

  it('closes what an attempt has opened in the same moment', async () => {
    const connection = new Connection();
    const connecting = connections.connect();
    attempts[0]?.resolve(connection);
    await connections.close();
    expect(await connecting).to.equal(connection);
    expect(connection.isEnded).to.equal(true);
  });

  it('lets work end before it closes, and takes no more', async () => {
    const connection = await connected();
    const work = createGate();
    const using = connections.use(() => work.opened);
    const closing = connections.close();
    await rejection(
      OUTAGE,
      connections.use(() => Promise.resolve()),
    );
    await clock.tickAsync(CLOSE_TIMEOUT_MS - 1);
    expect(connection.isEnded).to.equal(false);
    work.open();
    await closing;
    await using;
    expect(connection.closedWithin).to.equal(1);
  });

  it('closes over work that does not end in time', async () => {
    const connection = await connected();
    void connections.use(() => new Promise(() => undefined));
    const closing = connections.close();
    await clock.tickAsync(CLOSE_TIMEOUT_MS);
    await closing;
    expect(connection.closedWithin).to.equal(0);
  });

  it('closes once', async () => {
    const connection = await connected();
    expect(connections.close()).to.equal(connections.close());
    await connections.close();
    expect(connection.closedWithin).to.equal(CLOSE_TIMEOUT_MS);
  });
});
