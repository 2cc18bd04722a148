import { dropTemplate } from './database';
import { eventually } from './eventually';
import { openConnections, stopServices } from './services';

// Express prints every error that reaches its default handler, unless it is tested.
process.env['NODE_ENV'] = 'test';

// What must not be open once everything is closed. Standard streams are pipes, and mocha has none of these.
const LEAKS = new Set(['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap', 'Timeout']);

/** A socket that was closed takes a moment to be gone. */
const CLOSING_MS = 2_000;

/** Stops the services, then fails the run if a test left a connection, a server, a process or a timer behind. */
export async function mochaGlobalTeardown(): Promise<void> {
  await dropTemplate();
  // Before they end: a server that ends takes the connections that were left with it.
  await eventually(async () => {
    const open = await openConnections();
    if (open.length > 0) throw new Error(`the tests left connections open: ${open.join(', ')}`);
  }, CLOSING_MS);
  await stopServices();
  await new Promise((resolve) => setImmediate(resolve));
  const leaks = process.getActiveResourcesInfo().filter((kind) => LEAKS.has(kind));
  if (leaks.length > 0) throw new Error(`the tests left handles open: ${leaks.join(', ')}`);
}
