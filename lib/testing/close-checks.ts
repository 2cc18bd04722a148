import assert from 'node:assert/strict';
import type { PublishOutcome } from '../broker/port';
import type { CeleryMessage } from '../message/celery-message';
import type { Bench, Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { assertEach, SLACK_MS } from './expectations';
import { createMessages, idOf } from './sample-message';
import type { WatchedBroker } from './watched-broker';

const TIMEOUT_MS = 500;
/** The other timeout: so long that waiting for it by mistake is noticed. */
const LONG_MS = 10_000;

/** close() ends in time, lets what is in flight end first, and is the end. */
export function closeChecks(harness: BrokerHarness): Check[] {
  return [
    {
      title: 'after close(), publish() reports an outage and connect() rejects',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        await broker.publishAll(createMessages(1, queue));
        await broker.close();
        assertEach('outage', await broker.publish(createMessages(10, queue), SLACK_MS));
        assert.deepEqual(await broker.publish([]), []);
        await broker.failToConnect(SLACK_MS);
        assert.equal((await bench.takeIds(queue)).length, 1);
      },
    },
    {
      title: 'close() can be called twice, at once and later, and on a broker that was never used',
      run: async (bench) => {
        const [used, unused] = [bench.createBroker(), bench.createBroker()];
        await used.connect();
        for (const broker of [used, unused]) {
          await Promise.all([broker.close(), broker.close()]);
          await broker.close();
        }
        assertEach('outage', await unused.publish(createMessages(1, await bench.createQueue())));
      },
    },
    {
      title: 'close() lets the calls in flight end first',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        await broker.publishAll(createMessages(1, queue));
        await bench.takeIds(queue);
        const { messages, outcomes } = await closeAmid(broker, queue);
        assertEach('published', outcomes);
        assert.deepEqual(new Set(await bench.takeIds(queue)), new Set(messages.map(idOf)));
      },
    },
    {
      title: 'close() while it connects settles every call, with its true outcome',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const { messages, outcomes } = await closeAmid(bench.createBroker(), queue);
        await assertTrue(bench, queue, messages, outcomes);
      },
    },
    {
      title: 'close() resolves while the server is away',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const [lost, never] = [bench.createBroker(), bench.createBroker()];
        await lost.connect();
        await bench.harness.stop();
        assertEach('outage', await never.publish(createMessages(1, queue)));
        await Promise.all([lost.close(), never.close()]);
      },
    },
    ...(harness.silence === undefined ? [] : silentChecks(async () => harness.silence?.())),
  ];
}

function silentChecks(fallSilent: () => Promise<void>): Check[] {
  return [
    {
      title: 'close() resolves within the send timeout although the server is silent',
      run: async (bench) => {
        const broker = bench.createBroker({ connectTimeoutMs: LONG_MS, sendTimeoutMs: TIMEOUT_MS });
        await broker.connect();
        await fallSilent();
        await broker.close(TIMEOUT_MS + SLACK_MS);
      },
    },
    {
      title: 'close() settles calls that a silent server never acknowledges',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ connectTimeoutMs: LONG_MS, sendTimeoutMs: TIMEOUT_MS });
        await broker.publishAll(createMessages(1, queue));
        await fallSilent();
        const { outcomes } = await closeAmid(broker, queue, TIMEOUT_MS + SLACK_MS);
        assertEach('outage', outcomes);
      },
    },
    {
      title: 'close() does not wait for an attempt to connect',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker({ connectTimeoutMs: LONG_MS, sendTimeoutMs: TIMEOUT_MS });
        await fallSilent();
        const { outcomes } = await closeAmid(broker, queue, TIMEOUT_MS + SLACK_MS);
        assertEach('outage', outcomes);
      },
    },
  ];
}

/** Closes a broker in the middle of several calls; all of them, and close(), have the given time. */
async function closeAmid(
  broker: WatchedBroker,
  queue: string,
  ms = SLACK_MS,
): Promise<{ messages: CeleryMessage[]; outcomes: PublishOutcome[] }> {
  const calls = Array.from({ length: 5 }, () => createMessages(100, queue));
  const publishing = calls.map((messages) => broker.publish(messages, ms));
  const [outcomes] = await Promise.all([Promise.all(publishing), broker.close(ms)]);
  return { messages: calls.flat(), outcomes: outcomes.flat() };
}

async function assertTrue(
  bench: Bench,
  queue: string,
  messages: readonly CeleryMessage[],
  outcomes: readonly PublishOutcome[],
): Promise<void> {
  const taken = new Set(await bench.takeIds(queue));
  for (const [index, message] of messages.entries()) {
    const status = outcomes[index]?.status;
    assert.notEqual(status, 'fault', 'no message is to blame for a close()');
    if (status === 'published') assert.ok(taken.has(idOf(message)), 'published, and not in the queue');
  }
}
