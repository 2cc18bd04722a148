import { expect } from 'chai';
import type Redis from 'ioredis';
import { closedPort } from '../support/closed-port';
import { eventually } from '../support/eventually';
import { openSockets } from '../support/open-sockets';
import {
  codesOf,
  createAdmin,
  createBroker,
  createMessage,
  idsIn,
  type TestBroker,
  watchTimers,
} from '../support/redis-broker';
import { redisBinary, startRedisProcess, type RedisProcess } from '../support/redis-process';
import { createSilentServer } from '../support/silent-server';

if (redisBinary !== undefined) {
  describe('the Redis broker with Sentinel', () => {
    let servers: RedisProcess[] = [];
    let sentinel: RedisProcess;
    let [master, replica]: Redis[] = [];
    let opened: TestBroker[];
    let timersEnd: () => Promise<void>;

    before(async () => {
      timersEnd = await watchTimers();
    });
    after(() => timersEnd());
    beforeEach(async () => {
      opened = [];
      const settings = ['save ""', 'requirepass pw', 'masterauth pw', 'repl-diskless-sync-delay 0'];
      const first = await startRedisProcess(settings);
      const second = await startRedisProcess([...settings, `replicaof 127.0.0.1 ${String(first.port)}`]);
      servers = [first, second];
      [master, replica] = servers.map(({ port }) => createAdmin(`redis://:pw@127.0.0.1:${String(port)}`));
      // A Sentinel learns of a replica that comes later only after ten seconds.
      await eventually(async () => {
        expect(await master!.info('replication')).to.include('state=online');
      });
      sentinel = await startRedisProcess(
        [`sentinel monitor m 127.0.0.1 ${String(first.port)} 1`, 'sentinel auth-pass m pw'],
        '--sentinel',
      );
      servers.push(sentinel);
    });
    afterEach(async () => {
      for (const { broker } of opened) await broker.close();
      master?.disconnect();
      replica?.disconnect();
      for (const server of servers.splice(0)) await server.close();
    });

    function open(brokerOptions: object, connectTimeoutMs = 5_000): TestBroker {
      const made = createBroker({
        broker: 'redis://:pw@not-used.invalid/2',
        brokerOptions: { name: 'm', ...brokerOptions },
        connectTimeoutMs,
      });
      opened.push(made);
      return made;
    }
    const address = (): object => ({ host: '127.0.0.1', port: sentinel.port });

    async function failOver(): Promise<void> {
      const admin = createAdmin(sentinel.url);
      try {
        // It is refused until Sentinel has got to know the replica.
        await eventually(() => admin.call('SENTINEL', 'FAILOVER', 'm'));
        await eventually(async () => {
          const [, port] = (await admin.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'm')) as string[];
          expect(port).to.equal(String(servers[1]!.port));
        }, 10_000);
      } finally {
        admin.disconnect();
      }
      await replica!.select(2);
      await replica!.del('celery');
    }

    it('finds the master, and after a failover the new one', async () => {
      const { broker, errors } = open({
        sentinels: [{ host: '127.0.0.1', port: await closedPort() }, address()],
      });
      const first = createMessage();
      expect(codesOf(await broker.publish([first]))).to.deep.equal(['published']);
      await master!.select(2);
      expect(await idsIn(master!, 'celery')).to.deep.equal([first.taskId]);
      await failOver();
      // Sentinel does this some ten seconds later.
      await master!.replicaof('127.0.0.1', servers[1]!.port);
      const second = createMessage();
      await eventually(async () => {
        expect(codesOf(await broker.publish([second]))).to.deep.equal(['published']);
      });
      expect(await idsIn(replica!, 'celery')).to.include(second.taskId);
      expect(errors).to.have.length(1);
    });

    it('with failoverDetector leaves the old master before that one knows', async () => {
      const { broker, errors } = open({ sentinels: [address()], failoverDetector: true });
      await broker.connect();
      await failOver();
      await eventually(() => {
        expect(errors).to.have.length(1);
      });
      expect(await master!.role()).to.have.property('0', 'master');
      const message = createMessage();
      expect(codesOf(await broker.publish([message]))).to.deep.equal(['published']);
      expect(await idsIn(replica!, 'celery')).to.deep.equal([message.taskId]);
      await broker.close();
      await eventually(() => {
        expect(openSockets(sentinel.url)).to.equal(0);
      });
    });

    it('passes over a Sentinel that is silent', async () => {
      const silent = await createSilentServer();
      const { port } = silent;
      const { broker, errors } = open({ sentinels: [{ host: '127.0.0.1', port }, address()] }, 900);
      expect(codesOf(await broker.publish([createMessage()]))).to.deep.equal(['published']);
      expect(errors).to.deep.equal([]);
      await broker.close();
      await eventually(() => {
        expect(openSockets(`redis://127.0.0.1:${String(port)}`)).to.equal(0);
      });
      await silent.close();
    });

    it('reports an outage when no Sentinel answers', async () => {
      const { broker, errors } = open({ sentinels: [{ host: '127.0.0.1', port: await closedPort() }] });
      const [outcome] = await broker.publish([createMessage()]);
      expect(outcome).to.have.property('status', 'outage');
      expect(outcome).to.have.nested.property('error.message').that.includes('All sentinels are unreachable');
      expect(errors).to.have.length(1);
    });
  });
}
