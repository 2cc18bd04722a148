import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface RawRequest {
  method?: string;
  path: string;
  version?: '1.0' | '1.1';
  headers?: Readonly<Record<string, string>>;
  body?: string;
}

/** A request as it goes over the wire. Unless it says otherwise, the server closes after the answer. */
export function requestText({
  method = 'GET',
  path,
  version = '1.1',
  headers = {},
  body = '',
}: RawRequest): string {
  const fields = {
    Host: 'test',
    Connection: 'close',
    ...(body !== '' && { 'Content-Length': String(Buffer.byteLength(body)) }),
    ...headers,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/${version}\r\n${lines.join('')}\r\n${body}`;
}

/** A connection that keeps every byte it receives. */
export class RawConnection {
  readonly socket: Socket;
  readonly #chunks: Buffer[] = [];

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (chunk: Buffer) => this.#chunks.push(chunk));
  }

  /** What has come so far; binary, one character per byte. */
  get received(): string {
    return Buffer.concat(this.#chunks).toString('latin1');
  }

  /** Writes, waits until the server has closed, and gives all that came. */
  async finish(text = ''): Promise<string> {
    const closed = once(this.socket, 'close');
    if (text !== '') this.socket.write(text);
    await closed;
    return this.received;
  }
}

/** All the bytes that come back for `requests`, sent in one go (pipelined, if they are many). */
export function exchange(port: number, ...requests: readonly RawRequest[]): Promise<string> {
  return new RawConnection(port).finish(requests.map(requestText).join(''));
}

export const withoutDate = (received: string): string => received.replace(/^Date: .*$/gm, 'Date: now');
