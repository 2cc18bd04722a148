import assert from 'node:assert/strict';
import type { Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { becomes, SLACK_MS } from './expectations';
import { createMessages } from './sample-message';

const TIMEOUT_MS = 500;

/** Connections are opened when they are needed, and none is left behind. */
export function connectionChecks(harness: BrokerHarness): Check[] {
  if (harness.countConnections === undefined) return [];
  const count = async (): Promise<number | undefined> => harness.countConnections?.();
  return [
    {
      title: 'connects when it is first needed, and then uses what it has',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        assert.equal(await count(), 0, 'connections before it is used');
        await Promise.all([broker.connect(), broker.connect(), broker.publishAll(createMessages(1, queue))]);
        const opened = await count();
        assert.notEqual(opened, 0, 'connections while it is used');
        await broker.connect();
        await broker.publishAll(createMessages(1, queue));
        assert.equal(await count(), opened, 'connections after it was used again');
      },
    },
    {
      title: 'leaves no connection behind when it is closed',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        await broker.publishAll(createMessages(1, queue));
        await broker.close();
        await becomes('connections after close()', 0, count);
      },
    },
    {
      title: 'leaves no connection behind when one is lost',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        await broker.publishAll(createMessages(1, queue));
        const opened = await count();
        for (let loss = 1; loss <= 3; loss++) {
          await bench.harness.stop();
          await bench.harness.start();
          await broker.publishWhenBack(queue);
        }
        await becomes('connections after three losses', opened, count);
        await broker.close();
        await becomes('connections after close()', 0, count);
      },
    },
    ...(harness.silence === undefined
      ? []
      : [
          {
            title: 'leaves no connection behind when the server never answers',
            run: async (bench): Promise<void> => {
              const broker = bench.createBroker({ connectTimeoutMs: TIMEOUT_MS });
              await harness.silence?.();
              await broker.failToConnect(TIMEOUT_MS + SLACK_MS);
              await becomes('connections after a failed attempt', 0, count);
            },
          } satisfies Check,
        ]),
  ];
}
