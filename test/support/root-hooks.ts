import { dropTemplate } from './database';
import { stopServices } from './services';

// Express prints every error that reaches its default handler, unless it is tested.
process.env['NODE_ENV'] = 'test';

// What must not be open once everything is closed. Standard streams are pipes, and mocha has none of these.
const LEAKS = new Set(['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap', 'Timeout']);

/** Stops the services, then fails the run if a test left a connection, a server, a process or a timer behind. */
export async function mochaGlobalTeardown(): Promise<void> {
  await dropTemplate();
  await stopServices();
  await new Promise((resolve) => setImmediate(resolve));
  const leaks = process.getActiveResourcesInfo().filter((kind) => LEAKS.has(kind));
  if (leaks.length > 0) throw new Error(`the tests left handles open: ${leaks.join(', ')}`);
}
