import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

/** A TCP proxy whose two directions a test can hold, let go again, or cut. */
export interface SwitchProxy {
  /** The given URL, through the proxy. */
  readonly url: string;
  readonly port: number;
  /** How many connections it has taken. */
  readonly accepted: number;
  /** From now on what goes this way waits in the proxy. */
  hold(way: 'requests' | 'replies'): void;
  /** Passes on what waits. */
  release(): void;
  /** Ends every connection as a crash would, both ways; what waits is lost. */
  cut(): void;
  close(): Promise<void>;
}

/** @param certificate - with it the proxy speaks TLS to its clients */
export async function createSwitchProxy(
  target: string,
  certificate?: { key: string; cert: string },
): Promise<SwitchProxy> {
  const { hostname, port: targetPort } = new URL(target);
  const links = new Set<{ client: Socket; upstream: Socket }>();
  const held = { requests: false, replies: false };
  let accepted = 0;
  const onClient = (client: Socket): void => {
    accepted += 1;
    const upstream = connect(Number(targetPort), hostname);
    const link = { client, upstream };
    links.add(link);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('error', () => undefined);
      from.on('close', () => {
        links.delete(link);
        to.destroy();
      });
    }
    if (!held.requests) client.pipe(upstream);
    if (!held.replies) upstream.pipe(client);
  };
  const server: Server = certificate ? createTlsServer(certificate, onClient) : createServer(onClient);
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = new URL(target);
  url.port = String(port);
  const cut = (): void => {
    for (const { client, upstream } of links) {
      client.destroy();
      upstream.destroy();
    }
  };
  return {
    url: url.href,
    port,
    get accepted() {
      return accepted;
    },
    hold(way) {
      held[way] = true;
      for (const { client, upstream } of links) {
        if (way === 'requests') client.unpipe().pause();
        else upstream.unpipe().pause();
      }
    },
    release() {
      Object.assign(held, { requests: false, replies: false });
      for (const { client, upstream } of links) {
        client.pipe(upstream);
        upstream.pipe(client);
      }
    },
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
