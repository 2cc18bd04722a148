import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Redis } from 'ioredis';
import createKnex, { type Knex } from 'knex';
import { createOutbox } from '../../lib';
import { createMigrationSource } from '../../lib/migrations';
import { createRelay } from '../../lib/relay';
import { startServices } from '../../services';
import { createShop } from './shop';

/**
 * One order that is committed and one that PostgreSQL refuses at COMMIT, when every handler has long said 201; then the
 * relay hands the one task that is stored to Celery's queue.
 */
async function main(): Promise<void> {
  say('Starting PostgreSQL and Redis …');
  const services = await startServices(['postgres', 'redis']);
  // A schema of its own, in case DATABASE_URL named a database that somebody uses.
  const schema = `outbox_demo_${String(process.pid)}`;
  const knex = createKnex({ client: 'pg', connection: services.postgres.url, searchPath: [schema] });
  const outbox = createOutbox({ knex });
  const transportOptions = { globalKeyprefix: `${schema}:` };
  const relay = createRelay({ knex, celery: { broker: services.redis.url, transportOptions } });
  let server: Server | undefined;
  try {
    await knex.schema.createSchema(schema);
    await migrate(knex);
    server = createShop(outbox).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/orders`;

    say('POST /orders: 2 × tea. In stock, so it is committed.');
    await order(url, { item: 'tea', quantity: 2 });
    say('POST /orders: 1000 × tea. The handler answers 201, then COMMIT fails: the stock is checked there.');
    await order(url, { item: 'tea', quantity: 1_000 });

    say('What the database holds:');
    console.table(await knex('orders'));
    console.table(
      await knex('celery_outbox').select('id', 'task_name', 'args', 'kwargs', 'options', 'log_context'),
    );
    say('One 201, one order, one task. The other client was told the truth, and nothing of it is stored.');

    say('The relay hands it over, and deletes it when Redis has acknowledged it:');
    console.table(await relay.runOnce());
    say('What a Celery worker on the queue "orders" will find:');
    console.dir(await takeMessage(services.redis.url, `${schema}:orders`), { depth: 4 });
  } finally {
    server?.close();
    server?.closeAllConnections();
    await Promise.all([outbox.close(), relay.stop()]);
    await knex.schema.dropSchemaIfExists(schema, true);
    await knex.destroy();
    say('Stopping them …');
    await services.close();
  }
}

async function takeMessage(url: string, list: string): Promise<unknown> {
  const redis = new Redis(url);
  try {
    const { headers, body } = JSON.parse((await redis.rpop(list)) ?? '{}') as {
      headers: unknown;
      body: string;
    };
    return { headers, body: Buffer.from(body, 'base64').toString() };
  } finally {
    await redis.del(list);
    redis.disconnect();
  }
}

async function migrate(knex: Knex): Promise<void> {
  await knex.migrate.latest({
    migrationSource: createMigrationSource(),
    tableName: 'celery_outbox_migrations',
  });
  await knex.raw(`
    CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL, quantity int NOT NULL);
    CREATE FUNCTION check_stock() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF (SELECT sum(quantity) FROM orders WHERE item = NEW.item) > 100 THEN
          RAISE EXCEPTION 'only 100 of % in stock', NEW.item;
        END IF;
        RETURN NULL;
      END $$;
    CREATE CONSTRAINT TRIGGER in_stock AFTER INSERT ON orders
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_stock()`);
}

async function order(url: string, body: object): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Request-Id': 'demo' },
    body: JSON.stringify(body),
  });
  console.log(`   ${String(answer.status)} ${await answer.text()}\n`);
}

function say(line: string): void {
  console.log(`▸ ${line}`);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
