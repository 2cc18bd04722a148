import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below Linux's ephemeral range (32768 and up), from which the kernel would hand out a port of ours to any
 * outgoing connection while its service is stopped.
 */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;
const ATTEMPTS = 100;

const given = new Set<number>();

/**
 * A port of 127.0.0.1 on which nobody listens, and that this process has not handed out before.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = randomInt(FIRST_PORT, LAST_PORT);
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`No free port found on 127.0.0.1 in ${ATTEMPTS} attempts.`);
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => {
      resolve(false);
    });
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      server.close(() => {
        resolve(true);
      });
    });
  });
}
