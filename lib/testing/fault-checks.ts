import assert from 'node:assert/strict';
import type { PublishOutcome } from '../broker/port';
import type { CeleryMessage } from '../message/celery-message';
import type { Bench, Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { createMessage, createMessages, idOf } from './sample-message';

type Flaw = (message: CeleryMessage) => CeleryMessage | Promise<CeleryMessage>;

/** A message that is not taken says so, alone, and is not tried for ever. */
export function faultChecks({ deadEnds, badMessages }: BrokerHarness): Check[] {
  const lost = Object.entries(deadEnds).map(([name, route]): [string, Flaw] => [
    `a message to ${name}`,
    (message) => ({ ...message, route }),
  ]);
  const bad = Object.entries(badMessages).map(([name, flaw]): [string, Flaw] => [
    `a message with ${name}`,
    flaw,
  ]);
  return [...lost, ...bad].flatMap(([name, flaw]): Check[] => [
    {
      title: `${name} is a fault`,
      run: async (bench) => {
        const broker = bench.createBroker();
        const message = await flaw(createMessage(await bench.createQueue()));
        // The second time over a connection that may remember the first.
        for (let attempt = 1; attempt <= 2; attempt++) {
          const [outcome] = (await broker.publish([message])) as [PublishOutcome];
          assert.equal(outcome.status, 'fault', `attempt ${attempt}`);
        }
      },
    },
    {
      title: `${name} fails alone: those beside it are published, and each has its own outcome`,
      run: (bench) => failsAlone(bench, flaw),
    },
  ]);
}

const BAD = new Set([0, 7, 8, 19]);

async function failsAlone(bench: Bench, flaw: Flaw): Promise<void> {
  const broker = bench.createBroker();
  const queue = await bench.createQueue();
  const messages = await Promise.all(
    createMessages(20, queue).map(async (message, index) => (BAD.has(index) ? flaw(message) : message)),
  );
  const beside = createMessages(20, queue);
  const [outcomes] = await Promise.all([broker.publish(messages), broker.publishAll(beside)]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    messages.map((_, index) => (BAD.has(index) ? 'fault' : 'published')),
  );
  const good = messages.filter((_, index) => !BAD.has(index));
  const after = createMessages(1, queue);
  await broker.publishAll(after);
  await assertArrived(bench, queue, [good, beside, after]);
}

// A broker may have to send a good message again to learn which one is bad: more than once is allowed here.
async function assertArrived(
  bench: Bench,
  queue: string,
  calls: readonly (readonly CeleryMessage[])[],
): Promise<void> {
  const taken = [...new Set(await bench.takeIds(queue))];
  for (const messages of calls) {
    const ids = messages.map(idOf);
    assert.deepEqual(
      taken.filter((id) => ids.includes(id)),
      ids,
    );
  }
  assert.equal(taken.length, calls.flat().length, 'nothing else is there');
}
