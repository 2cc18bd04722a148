import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../services/free-port';

/** The way to a server, which a test can cut, or where everything gets lost. */
export interface Link {
  /** The given URL, over the link. */
  readonly url: string;
  /** How many connections are open over it. */
  readonly connections: number;
  /** Connections end, new ones are refused. */
  stop(): Promise<void>;
  /** Connections stay, new ones are accepted, nothing passes in either direction. */
  silence(): void;
  /** It passes everything again; connections that were silent end. */
  start(): Promise<void>;
}

export async function createLink(target: string): Promise<Link> {
  const { hostname, port: targetPort } = new URL(target);
  const port = await freePort();
  const url = new URL(target);
  url.host = `127.0.0.1:${String(port)}`;
  /** By the socket of the client, that to the server. */
  const pairs = new Map<Socket, Socket | null>();
  let isSilent = false;
  let server: Server | null = null;

  function accept(client: Socket): void {
    const upstream = isSilent ? null : connect(Number(targetPort), hostname);
    pairs.set(client, upstream);
    client.on('error', () => undefined);
    client.on('close', () => {
      pairs.delete(client);
      upstream?.destroy();
    });
    if (upstream === null) {
      client.resume();
      return;
    }
    upstream.on('error', () => undefined);
    upstream.on('close', () => client.destroy());
    client.pipe(upstream);
    upstream.pipe(client);
  }
  async function cut(): Promise<void> {
    const ending = [...pairs.keys()].map((client) => once(client, 'close'));
    for (const client of pairs.keys()) client.destroy();
    await Promise.all(ending);
  }
  const link: Link = {
    url: url.href,
    get connections() {
      return pairs.size;
    },
    async stop() {
      const stopping = server;
      server = null;
      if (stopping === null) return;
      stopping.close();
      await Promise.all([once(stopping, 'close'), cut()]);
    },
    silence() {
      isSilent = true;
      for (const pair of pairs) for (const socket of pair) socket?.unpipe().resume();
    },
    async start() {
      if (isSilent) await cut();
      isSilent = false;
      if (server !== null) return;
      server = createServer(accept).listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
  await link.start();
  return link;
}
