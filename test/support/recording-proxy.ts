import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy that keeps what its clients send. */
export interface RecordingProxy {
  /** The given URL, through the proxy. */
  readonly url: string;
  /** What was sent since the last time, a buffer for each connection. */
  take(): Buffer[];
  close(): Promise<void>;
}

export async function createRecordingProxy(target: string): Promise<RecordingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let recorded: Buffer[][] = [];
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    const chunks: Buffer[] = [];
    recorded.push(chunks);
    client.on('data', (chunk) => chunks.push(chunk));
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.pipe(to).on('error', () => undefined);
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    take() {
      const taken = recorded.map((chunks) => Buffer.concat(chunks));
      recorded = [];
      return taken;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
