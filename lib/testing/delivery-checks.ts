import assert from 'node:assert/strict';
import type { CeleryMessage } from '../message/celery-message';
import { asGiven } from './as-given';
import type { Check } from './bench';
import { SAMPLE_CASES } from './sample-cases';
import { createMessage, createMessages, idOf } from './sample-message';

const MANY = 1_000;

/** What is published is in its queue: each message once, in order, as it was given. */
export function deliveryChecks(): Check[] {
  return [
    {
      title: 'publish() of no messages gives no outcomes',
      run: async (bench) => {
        assert.deepEqual(await bench.createBroker().publish([]), []);
      },
    },
    ...Object.entries(SAMPLE_CASES).map(([name, parts]): Check => ({
      title: `delivers ${name} unaltered`,
      run: async (bench) => {
        const queue = await bench.createQueue();
        const message = createMessage(queue, parts);
        await bench.createBroker().publishAll([message]);
        const taken = await bench.harness.take(queue);
        assert.deepEqual(taken.map(asGiven), [asGiven(message)]);
      },
    })),
    {
      title: 'leaves the messages that it is given as they are, so that they can be published again',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const message = createMessage(queue);
        const before = asGiven({ ...message, body: Buffer.from(message.body) });
        const broker = bench.createBroker();
        await broker.publishAll([message]);
        await broker.publishAll([message]);
        assert.deepEqual(asGiven(message), before);
        assert.deepEqual((await bench.harness.take(queue)).map(asGiven), [before, before]);
      },
    },
    {
      title: `keeps the order of ${MANY} messages of one call`,
      run: async (bench) => {
        const queue = await bench.createQueue();
        const messages = createMessages(MANY, queue);
        await bench.createBroker().publishAll(messages);
        assert.deepEqual(await bench.takeIds(queue), messages.map(idOf));
      },
    },
    {
      title: 'keeps the order of one call after another',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        const messages = createMessages(50, queue);
        for (const message of messages) await broker.publishAll([message]);
        assert.deepEqual(await bench.takeIds(queue), messages.map(idOf));
      },
    },
    {
      title: 'keeps the order of each queue when a call has messages for many',
      run: async (bench) => {
        const queues = await Promise.all(Array.from({ length: 10 }, () => bench.createQueue()));
        const messages = Array.from({ length: 30 }, () => queues.map((queue) => createMessage(queue))).flat();
        await bench.createBroker().publishAll(messages);
        for (const queue of queues) {
          const given = messages.filter(({ route }) => route.queue === queue);
          assert.deepEqual(await bench.takeIds(queue), given.map(idOf));
        }
      },
    },
    {
      title: 'takes many calls at once, the first while it connects, and keeps the order of each',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        const calls = Array.from({ length: 50 }, () => createMessages(20, queue));
        await Promise.all(calls.map((messages) => broker.publishAll(messages)));
        const taken = await bench.takeIds(queue);
        assert.equal(taken.length, calls.flat().length, 'each message is there once');
        for (const messages of calls) assert.deepEqual(within(taken, messages), messages.map(idOf));
      },
    },
    {
      title: 'publishes a task id as often as it is given',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const broker = bench.createBroker();
        const message = createMessage(queue);
        await broker.publishAll([message, message]);
        await Promise.all([broker.publishAll([message]), broker.publishAll([message])]);
        assert.deepEqual(await bench.takeIds(queue), Array<string>(4).fill(message.taskId));
      },
    },
    {
      title: 'keeps priorities, and the order within each',
      run: async (bench) => {
        const queue = await bench.createQueue();
        const messages = [3, 0, 9, 3, 5, 0, 9].map((priority) =>
          createMessage(queue, { properties: { priority } }),
        );
        await bench.createBroker().publishAll(messages);
        const taken = await bench.harness.take(queue);
        assert.deepEqual(byPriority(taken), byPriority(messages));
      },
    },
  ];
}

/** The ids of these messages, in the order in which they were taken. */
function within(taken: readonly string[], messages: readonly CeleryMessage[]): string[] {
  const ids = new Set(messages.map(idOf));
  return taken.filter((id) => ids.has(id));
}

function byPriority(messages: readonly Pick<CeleryMessage, 'headers' | 'properties'>[]): unknown[] {
  return messages
    .map((message) => ({ priority: message.properties.priority, id: idOf(message) }))
    .sort((one, other) => one.priority - other.priority);
}
