import { expect } from 'chai';
import type { TaskOptions } from '../../lib';
import { startPythonWorker } from '../support/python-worker';
import { TaskResults } from '../support/task-results';
import { BROKERS, freshNames, urlsFor, type BrokerName } from './interop';
import { Sender, type Call } from './sender';

const PRIORITIES = [3, 0, 9, 6];
const MAX_PRIORITY = 10;
const HIGHEST_FIRST: Readonly<Record<BrokerName, boolean>> = { rabbitmq: true, redis: false };

for (const broker of BROKERS) {
  describe(`tasks that wait for a Python worker on ${broker}`, () => {
    const { queue: name } = freshNames();
    let sender: Sender;
    let results: TaskResults;
    let urls: Awaited<ReturnType<typeof urlsFor>>;

    before(async function () {
      this.timeout(120_000);
      urls = await urlsFor(broker);
      const queues = { [name]: { maxPriority: MAX_PRIORITY } };
      sender = new Sender({ broker: urls.brokerUrl, queue: name, queues });
      results = new TaskResults(urls.backendUrl);
    });
    after(async () => {
      results.close();
      await sender.close();
    });

    const note = (value: unknown, options: TaskOptions): Call => ({
      name: 'interop.note',
      args: [name, value],
      options,
    });

    it('are run in the order of their priorities, then of their sending; those that expired are not', async () => {
      const first = PRIORITIES.map((priority) => note([priority, 'first'], { priority }));
      const expired = PRIORITIES.map((priority) => note('expired', { priority, expires: -60 }));
      const second = PRIORITIES.map((priority) => note([priority, 'second'], { priority }));
      const ids = await sender.send([...first, ...expired, ...second]);

      // One task after another: when the last of them has run, so would have any other.
      const { brokerUrl, backendUrl: backend } = urls;
      const queues = [{ name, maxPriority: MAX_PRIORITY }];
      const worker = await startPythonWorker({ broker: brokerUrl, backend, queues, pool: 'solo' });
      try {
        const noted = await results.notes(name, first.length + second.length);
        const order = PRIORITIES.toSorted((a, b) => (HIGHEST_FIRST[broker] ? b - a : a - b));
        expect(noted).to.deep.equal(
          order.flatMap((priority) => [
            [priority, 'first'],
            [priority, 'second'],
          ]),
        );
        for (const id of ids.slice(first.length, first.length + expired.length)) {
          // RabbitMQ itself drops most of them.
          const outcome = await results.peek(id);
          expect(outcome?.status).to.be.oneOf(broker === 'redis' ? ['REVOKED'] : ['REVOKED', undefined]);
        }
      } finally {
        await worker.stop();
      }
    });
  });
}
