import assert from 'node:assert/strict';
import type { Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { assertEach, SLACK_MS } from './expectations';
import { createMessages } from './sample-message';

const TIMEOUT_MS = 500;
/** The other timeout: so long that waiting for it by mistake is noticed. */
const LONG_MS = 10_000;
const DEADLINE_MS = TIMEOUT_MS + SLACK_MS;

/** A server that accepts everything and answers nothing is an outage as well, as soon as the timeout is over. */
export function silenceChecks(harness: BrokerHarness): Check[] {
  if (harness.silence === undefined) return [];
  const fallSilent = async (): Promise<void> => harness.silence?.();
  return [
    {
      title: 'connect() rejects within the connect timeout if the server accepts and never answers',
      run: async (bench) => {
        const broker = bench.createBroker({ connectTimeoutMs: TIMEOUT_MS, sendTimeoutMs: LONG_MS });
        await fallSilent();
        await broker.failToConnect(DEADLINE_MS);
      },
    },
    {
      title: 'publish() reports an outage within the connect timeout if the server accepts and never answers',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ connectTimeoutMs: TIMEOUT_MS, sendTimeoutMs: LONG_MS });
        await fallSilent();
        const calls = [1, 10].map((count) => broker.publish(createMessages(count, queue), DEADLINE_MS));
        assertEach('outage', (await Promise.all(calls)).flat());
      },
    },
    {
      title: 'publish() reports an outage within the send timeout if nothing is acknowledged any more',
      run: async (bench) => {
        const [known, other] = [await bench.createQueue(), await bench.createQueue()];
        const broker = bench.createBroker({ connectTimeoutMs: LONG_MS, sendTimeoutMs: TIMEOUT_MS });
        await broker.publishAll(createMessages(1, known));
        await fallSilent();
        const calls = [known, other, known].map((queue) =>
          broker.publish(createMessages(100, queue), DEADLINE_MS),
        );
        assertEach('outage', (await Promise.all(calls)).flat());
      },
    },
    {
      title: 'goes on by itself after a silence, and does not send later what was an outage in it',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ sendTimeoutMs: TIMEOUT_MS });
        await broker.publishAll(createMessages(1, queue));
        await bench.takeIds(queue);
        await fallSilent();
        assertEach('outage', await broker.publish(createMessages(10, queue)));
        await bench.harness.start();
        const sent = await broker.publishWhenBack(queue);
        await broker.close(DEADLINE_MS);
        assert.deepEqual(await bench.takeIds(queue), [sent.taskId]);
      },
    },
  ];
}
