import { brokerContract } from '../../lib/testing';
import { AmqpHarness } from './amqp-harness';
import type { RealHarness } from './real-harness';
import { RedisHarness } from './redis-harness';

const BROKERS: readonly [string, RealHarness][] = [
  ['RabbitMQ', new AmqpHarness()],
  ['Redis', new RedisHarness()],
];

for (const [name, harness] of BROKERS) {
  describe(`the broker for ${name}`, function () {
    this.timeout(30_000);
    before(() => harness.open());
    after(() => harness.close());

    for (const { title, run } of brokerContract(harness)) it(title, run);
  });
}
