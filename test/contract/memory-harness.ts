import { randomUUID } from 'node:crypto';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import type { Broker, BrokerHarness, BrokerTimeouts } from '../../lib/testing';
import { MemoryServer } from './memory-server';

/** As long as this one takes to boot: somebody has to notice. */
const DOWN_MS = 50;

export type MemoryBrokerClass = new (server: MemoryServer, timeouts: BrokerTimeouts) => Broker;

const inTurn = (act: () => void) => async (): Promise<void> => {
  await turn();
  act();
};

/** For a broker in memory; with every capability. */
export function createMemoryHarness(Tested: MemoryBrokerClass): Required<BrokerHarness> {
  const server = new MemoryServer();
  return {
    patienceMs: 1_500,
    deadEnds: { 'a queue that does not exist': { exchange: '', routingKey: 'none', queue: null } },
    badMessages: {
      'a bad header': (message) => ({ ...message, headers: { ...message.headers, bad: true } }),
    },
    createBroker: (timeouts) => new Tested(server, timeouts),
    createQueue() {
      const queue = randomUUID();
      server.createQueue(queue);
      return Promise.resolve(queue);
    },
    take: (queue) => Promise.resolve(server.take(queue)),
    stop: inTurn(() => server.stop()),
    start: inTurn(() => server.start()),
    silence: inTurn(() => server.silence()),
    async restart() {
      server.stop();
      await delay(DOWN_MS);
      server.start();
    },
    countConnections: () => server.connections.size,
  };
}
