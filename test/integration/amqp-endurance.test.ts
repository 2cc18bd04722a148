import { expect } from 'chai';
import { useAdmin } from '../support/amqp-admin';
import { createMessages, tally, useBrokers } from '../support/amqp-broker';
import { retainedBytes } from '../support/retained-memory';

const MIB = 1024 * 1024;

describe('100,000 messages through one AMQP broker', function () {
  this.timeout(120_000);
  const bench = useAdmin();
  const createBroker = useBrokers();

  it('leave its memory as it was', async () => {
    const { broker, errors } = createBroker({ broker: bench.url });
    const queue = await bench.admin.queue({ maxLength: 100 });
    const retained: number[] = [];
    for (let tenth = 0; tenth < 10; tenth++) {
      const calls = Array.from({ length: 10 }, () => broker.publish(createMessages(1_000, { queue })));
      expect(tally((await Promise.all(calls)).flat())).to.deep.equal({ published: 10_000 });
      retained.push(retainedBytes());
    }
    expect(retained.at(-1)! - retained[1]!).to.be.below(4 * MIB);
    expect(errors).to.deep.equal([]);
  });
});
