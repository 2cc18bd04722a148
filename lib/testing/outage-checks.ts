import assert from 'node:assert/strict';
import type { Check } from './bench';
import { assertEach, SLACK_MS } from './expectations';
import { createMessages } from './sample-message';

const CONNECT_MS = 1_000;

/** A server that is away is an outage, in time, for as long as it is away and no longer. */
export function outageChecks(): Check[] {
  return [
    {
      title: 'connect() rejects with a BrokerOutage while the server is away',
      run: async (bench) => {
        const broker = bench.createBroker({ connectTimeoutMs: CONNECT_MS });
        await bench.harness.stop();
        // Also the second time, when it may still wait for its next attempt.
        for (let attempt = 1; attempt <= 2; attempt++) {
          await broker.failToConnect(CONNECT_MS + SLACK_MS);
        }
      },
    },
    {
      title: 'connect() resolves when the server is there, also when it is connected',
      run: async (bench) => {
        const broker = bench.createBroker();
        await Promise.all([broker.connect(), broker.connect()]);
        await broker.connect();
        await broker.publishAll(createMessages(1, await bench.createQueue()));
      },
    },
    {
      title: 'publish() reports an outage for every message while the server is away',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ connectTimeoutMs: CONNECT_MS });
        await bench.harness.stop();
        const calls = [1, 10, 100].map((count) =>
          broker.publish(createMessages(count, queue), CONNECT_MS + SLACK_MS),
        );
        assertEach('outage', (await Promise.all(calls)).flat());
      },
    },
    {
      title: 'publish() reports an outage when the connection is lost',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ connectTimeoutMs: CONNECT_MS });
        await broker.publishAll(createMessages(1, queue));
        await bench.harness.stop();
        for (let attempt = 1; attempt <= 2; attempt++) {
          assertEach('outage', await broker.publish(createMessages(10, queue), CONNECT_MS + SLACK_MS));
        }
      },
    },
    {
      title: 'goes on by itself when the server is back',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        for (let loss = 1; loss <= 2; loss++) {
          await broker.publishAll(createMessages(1, queue));
          await bench.harness.stop();
          assertEach('outage', await broker.publish(createMessages(1, queue)));
          await bench.harness.start();
          await broker.publishWhenBack(queue);
        }
      },
    },
    {
      title: 'holds nothing back: what was an outage while the server was away is not sent later',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        await broker.connect();
        await bench.harness.stop();
        assertEach('outage', await broker.publish(createMessages(10, queue)));
        await bench.harness.start();
        const sent = await broker.publishWhenBack(queue);
        await broker.close();
        assert.deepEqual(await bench.takeIds(queue), [sent.taskId]);
      },
    },
    {
      title: 'tells the truth about every message while the server goes and comes back',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const sent = await bench.publishDuring(bench.createBroker(), queue, async (traffic) => {
          for (let loss = 1; loss <= 3; loss++) {
            await traffic.sees('published');
            await bench.harness.stop();
            await traffic.sees('outage');
            await bench.harness.start();
          }
          await traffic.sees('published');
        });
        sent.assertTrue(await bench.takeIds(queue));
      },
    },
  ];
}
