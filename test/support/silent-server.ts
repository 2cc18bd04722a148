import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

/** A server that takes connections and never says anything. */
export interface SilentServer {
  readonly port: number;
  /** How many connections it has taken. */
  readonly accepted: number;
  close(): Promise<void>;
}

/** @param onSocket - for a server that is not quite silent */
export async function createSilentServer(onSocket?: (socket: Socket) => void): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    onSocket?.(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get accepted() {
      return sockets.size;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
