import { expect } from 'chai';
import { eventually } from '../support/eventually';
import { createAdmin, createBroker, createMessages, idsIn, watchTimers } from '../support/redis-broker';
import { redisBinary, startRedisProcess, type RedisProcess } from '../support/redis-process';

// The servers of startServices come back empty; this one keeps what it has acknowledged.
const DURABLE = ['appendonly yes', 'appendfsync always', 'save ""'];

if (redisBinary !== undefined) {
  describe('the Redis broker, when Redis goes away among 5,000 messages and comes back', () => {
    let server: RedisProcess;
    let timersEnd: () => Promise<void>;

    before(async () => {
      timersEnd = await watchTimers();
    });
    after(() => timersEnd());
    beforeEach(async () => {
      server = await startRedisProcess(DURABLE);
    });
    afterEach(async () => {
      await server.close();
    });

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      it(`by ${signal}: each is published or an outage, what is published is there, and it goes on`, async () => {
        const { broker, errors } = createBroker({ broker: server.url });
        const admin = createAdmin(server.url);
        const [sent, published] = [new Set<string>(), new Set<string>()];
        let outages = 0;
        /** As a relay: 500 at a time, and again those that were not published. */
        const relay = async (): Promise<void> => {
          let left = createMessages(500);
          for (const { taskId } of left) sent.add(taskId);
          await eventually(async () => {
            const outcomes = await broker.publish(left);
            expect(outcomes).to.have.length(left.length);
            for (const [index, { status }] of outcomes.entries()) {
              expect(status).to.not.equal('fault');
              if (status === 'published') published.add(left[index]!.taskId);
              else outages += 1;
            }
            left = left.filter(({ taskId }) => !published.has(taskId));
            expect(left).to.deep.equal([]);
          }, 10_000);
        };
        const relayUntil = async (done: () => boolean): Promise<void> => {
          while (!done()) await relay();
        };
        try {
          await relayUntil(() => sent.size >= 1000);
          // Several calls are in flight when it ends.
          const relays = Array.from({ length: 4 }, () => relayUntil(() => outages > 0 && sent.size >= 5000));
          await server.end(signal);
          await eventually(() => {
            expect(outages).to.be.above(0);
          });
          const before = [...published];
          await server.start();
          const kept = new Set(await idsIn(admin, 'celery'));
          expect(
            before.filter((id) => !kept.has(id)),
            'published and lost',
          ).to.deep.equal([]);
          await Promise.all(relays);
          const found = new Set(await idsIn(admin, 'celery'));
          expect(published).to.have.property('size', sent.size);
          expect([...sent].filter((id) => !found.has(id))).to.deep.equal([]);
          // One loss, then failed attempts with a growing pause between them: not one for each message.
          expect(errors).to.have.length.within(1, 20);
        } finally {
          admin.disconnect();
          await broker.close();
        }
      });
    }
  });
}
