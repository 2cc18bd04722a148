import { readFileSync } from 'node:fs';
import { type ConfirmChannel, connect } from 'amqplib';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { startServices, type Services } from '../../services';
import { answers } from '../../services/answers';
import { familyOf } from '../../services/private/proc';
import { SERVICE_NAMES } from '../../services/service';
import { runDirectoriesOf, startLocated } from './fixtures/own-runs';
import { canRunPrivately, privatePlatform } from './fixtures/platforms';

const START_DEADLINE_MS = 20_000;

if (canRunPrivately()) {
  describe('private services', function () {
    this.timeout(30_000);
    let services: Services;
    let startedInMs: number;

    before(async () => {
      const begin = performance.now();
      services = await startServices(SERVICE_NAMES, { platform: privatePlatform() });
      startedInMs = performance.now() - begin;
    });
    after(() => services.close());

    it('start side by side and answer', async () => {
      expect(startedInMs).to.be.below(START_DEADLINE_MS);
      for (const name of SERVICE_NAMES) {
        expect(services[name]).to.include({ name, origin: 'private' });
        expect(await answers[name](services[name].url), name).to.equal(true);
      }
    });

    it('run PostgreSQL in UTC, as UTF-8, fast but with honest commits', async () => {
      const settings = ['TimeZone', 'server_encoding', 'fsync', 'full_page_writes', 'synchronous_commit'];
      const rows = await query(
        services.postgres.url,
        `SELECT ${settings
          .map((name) => `current_setting('${name}')`)
          .map((s, i) => `${s} AS s${i}`)
          .join()}`,
      );
      expect(Object.values(rows[0] ?? {})).to.deep.equal(['UTC', 'UTF8', 'off', 'off', 'on']);
    });

    it('bring PostgreSQL back at its URL with what was committed', async () => {
      const { url } = services.postgres;
      await query(url, 'CREATE TABLE kept (id int)');
      for (const end of ['stop', 'kill'] as const) {
        await query(url, 'INSERT INTO kept VALUES (1)');
        await services.postgres[end]();
        expect(await answers.postgres(url), end).to.equal(false);
        await services.postgres.start();
      }
      expect(await query(url, 'SELECT count(*)::int AS count FROM kept')).to.deep.equal([{ count: 2 }]);
    });

    it('bring RabbitMQ back at its URL with its durable queues', async () => {
      const { url } = services.rabbitmq;
      await publishDurably(url, 'kept');
      // Stopped first: killed within seconds of the declaration, RabbitMQ may not have written it yet.
      for (const end of ['stop', 'kill'] as const) {
        await services.rabbitmq[end]();
        expect(await answers.rabbitmq(url), end).to.equal(false);
        await services.rabbitmq.start();
        expect(await countMessages(url, 'kept'), end).to.equal(1);
      }
    });

    it('bring Redis back at its URL, empty', async () => {
      const { url } = services.redis;
      await withRedis(url, (redis) => redis.set('lost', '1'));
      await services.redis.kill();
      expect(await answers.redis(url)).to.equal(false);
      await services.redis.start();
      expect(await withRedis(url, (redis) => redis.get('lost'))).to.equal(null);
    });

    it('take a stop of what is down and a start of what runs as done', async () => {
      await services.redis.start();
      await services.redis.stop();
      await services.redis.stop();
      await services.redis.kill();
      await services.redis.start();
      expect(await answers.redis(services.redis.url)).to.equal(true);
    });
  });

  describe('services that are closed', () => {
    it('answer no more, refuse to start, and leave no shared memory of a killed PostgreSQL', async () => {
      const { services, owner } = await startLocated(['postgres']);
      const creators = new Set(familyOf(owner).map(({ pid }) => pid));
      await services.postgres.kill();
      await services.close();
      await services.close();
      expect(await answers.postgres(services.postgres.url)).to.equal(false);
      expect(await services.postgres.start().catch(String)).to.match(/has ended/);
      expect(sharedMemoryCreators().filter((pid) => creators.has(pid))).to.deep.equal([]);
    });
  });

  describe('a service that does not come up', () => {
    it('is reported with the end of its log, and the others are taken back', async () => {
      const platform = privatePlatform();
      const broken = { ...platform.find, redis: () => ({ server: '/bin/ls' }) };
      const before = runDirectoriesOf();
      const outcome = await startServices(['postgres', 'redis'], {
        platform: { ...platform, find: broken },
      }).catch(String);
      expect(outcome).to.match(/\/bin\/ls did not come up \(2\)[^]*unrecognized option '--port'/);
      expect(runDirectoriesOf()).to.deep.equal(before);
    });
  });
}

async function query(connectionString: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function withRedis<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

async function withChannel<T>(url: string, use: (channel: ConfirmChannel) => Promise<T>): Promise<T> {
  const connection = await connect(url);
  try {
    return await use(await connection.createConfirmChannel());
  } finally {
    await connection.close();
  }
}

function publishDurably(url: string, queue: string): Promise<void> {
  return withChannel(url, async (channel) => {
    await channel.assertQueue(queue, { durable: true });
    channel.sendToQueue(queue, Buffer.from('{}'), { persistent: true });
    await channel.waitForConfirms();
  });
}

function countMessages(url: string, queue: string): Promise<number> {
  return withChannel(url, async (channel) => (await channel.checkQueue(queue)).messageCount);
}

function sharedMemoryCreators(): number[] {
  const lines = readFileSync('/proc/sysvipc/shm', 'utf8').trim().split('\n').slice(1);
  return lines.map((line) => Number(line.trim().split(/\s+/)[4]));
}
