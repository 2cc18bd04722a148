import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP proxy; how bytes go through it is up to the test. */
export interface WiredProxy {
  /** The given URL, through the proxy. */
  readonly url: string;
  close(): Promise<void>;
}

/** @param wire - joins a client with the server. When one of them is closed, the other is destroyed. */
export async function createWiredProxy(
  target: string,
  wire: (client: Socket, server: Socket) => void,
): Promise<WiredProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const listener = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect(Number(port), hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    wire(client, server);
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const url = new URL(target);
  url.port = String((listener.address() as AddressInfo).port);
  return {
    url: url.href,
    async close() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
}

/** Lets so many bytes through, then ends both. */
export function pipeUpTo(bytes: number, from: Socket, to: Socket): void {
  let left = Math.floor(bytes);
  from.on('data', (data) => {
    const part = data.subarray(0, left);
    left -= part.length;
    to.write(part, () => {
      if (left === 0) from.destroy();
    });
  });
}

/** Lets no more than so many bytes through in a second. */
export function pipeSlowly(bytesPerSecond: number, from: Socket, to: Socket): void {
  from.on('data', (data) => {
    to.write(data);
    from.pause();
    setTimeout(() => from.resume(), (data.length / bytesPerSecond) * 1000);
  });
}

/** A frame in which RabbitMQ closes a connection: the method connection.close with the code 320. */
export const CLOSE_FRAME = Buffer.from([1, 0, 0, 0, 0, 0, 11, 0, 10, 0, 50, 1, 64, 0, 0, 0, 0, 0, 206]);
