import assert from 'node:assert/strict';
import type { Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { createMessages, idOf } from './sample-message';

/** What a server that keeps its messages has acknowledged outlives it. */
export function restartChecks(harness: BrokerHarness): Check[] {
  if (harness.restart === undefined) return [];
  return [
    {
      title: 'what is published outlives the server, and every outcome while it restarts is true',
      run: async (bench) => {
        const [quiet, busy] = [await bench.createQueue(), await bench.createQueue()];
        const broker = bench.createBroker();
        const messages = createMessages(100, quiet);
        await broker.publishAll(messages);
        const sent = await bench.publishDuring(broker, busy, async (traffic) => {
          await traffic.sees('published');
          await Promise.all([harness.restart?.(), traffic.sees('outage')]);
          await traffic.sees('published');
        });
        assert.deepEqual(await bench.takeIds(quiet), messages.map(idOf));
        sent.assertTrue(await bench.takeIds(busy));
      },
    },
  ];
}
