import { expect } from 'chai';
import { brokerContract } from '../../lib/testing';
import { BROKEN_BROKERS } from './broken-brokers';
import { MemoryBroker } from './memory-broker';
import { createMemoryHarness, type MemoryBrokerClass } from './memory-harness';

const TITLES = brokerContract(createMemoryHarness(MemoryBroker)).map(({ title }) => title);

/** The checks that a broker fails, and why. They run at the same time, each against a server of its own. */
async function failures(broker: MemoryBrokerClass, titles: readonly string[]): Promise<Map<string, unknown>> {
  const failed = new Map<string, unknown>();
  await Promise.all(
    titles.map(async (title) => {
      const check = brokerContract(createMemoryHarness(broker)).find((each) => each.title === title);
      await check?.run().catch((error: unknown) => failed.set(title, error));
    }),
  );
  return failed;
}

describe('the contract of the broker port', function () {
  this.timeout(30_000);
  const broken = Object.entries(BROKEN_BROKERS);
  const noticed = new Map<string, Map<string, unknown>>();
  let unbroken: Map<string, unknown>;

  before(async () => {
    // Together, so that what a busy machine makes fail would fail with the one that is not broken too.
    const running = broken.map(async ([name, { broker, breaks }]) =>
      noticed.set(name, await failures(broker, breaks)),
    );
    unbroken = await failures(MemoryBroker, TITLES);
    await Promise.all(running);
  });

  it('is kept by a broker in memory', () => {
    expect([...unbroken]).to.deep.equal([]);
  });

  for (const [name, { breaks }] of broken) {
    it(`is not kept by a broker that ${name}`, () => {
      expect([...noticed.get(name)!.keys()]).to.have.members(breaks);
    });
  }

  it('has no check that cannot fail', () => {
    const failed = new Set([...noticed.values()].flatMap((each) => [...each.keys()]));
    expect(TITLES.filter((title) => !failed.has(title))).to.deep.equal([]);
  });

  it('leaves out what a harness cannot do', () => {
    const { silence: _s, restart: _r, countConnections: _c, ...least } = createMemoryHarness(MemoryBroker);
    const checks = brokerContract({ ...least, deadEnds: {}, badMessages: {} }).map(({ title }) => title);
    expect(checks).to.have.length.above(20);
    for (const title of checks) expect(title).not.to.match(/silent|silence|restart|connection behind/);
  });
});
