import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express5, { type Express } from 'express';
import express4 from 'express4';

type ExpressModule = typeof express5;

/** Both majors, under the types of the newer one: what the tests use is the same in both. */
export const EXPRESS_VERSIONS: readonly (readonly [name: string, express: ExpressModule])[] = [
  ['Express 4', express4],
  ['Express 5', express5],
];

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly server: Server;
  close(): Promise<void>;
}

export async function listen(handler: RequestListener | Express): Promise<TestServer> {
  const server = createServer(handler as RequestListener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${String(port)}`,
    port,
    server,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
