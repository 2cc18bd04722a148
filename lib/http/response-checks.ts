import { ServerResponse } from 'node:http';

// Node checks these when it writes. A held response is written after the COMMIT, when it is too late to tell
// the handler, so they are checked when they are given: by Node, on a response that goes nowhere.

export interface Head {
  readonly statusCode: number;
  readonly statusMessage: string;
}

/** @returns what Node makes of these arguments of writeHead. @throws what Node throws. */
export function rehearseHead(res: ServerResponse, args: readonly unknown[]): Head {
  const rehearsal = new ServerResponse(res.req);
  for (const name of res.getHeaderNames()) rehearsal.setHeader(name, res.getHeader(name) ?? '');
  rehearsal.statusMessage = res.statusMessage;
  // Of a head that has been given already Node says ERR_HTTP_HEADERS_SENT.
  Object.assign(rehearsal, { _header: (res as unknown as { _header: string | null })._header });
  (rehearsal.writeHead as (...args: readonly unknown[]) => void)(...args);
  const { statusCode, statusMessage } = rehearsal;
  return { statusCode, statusMessage };
}

/** The body arguments of write and end. @throws what Node throws. */
export function assertChunk(res: ServerResponse, [chunk, encoding]: readonly unknown[]): void {
  if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) new ServerResponse(res.req).write(chunk);
  if (typeof encoding === 'string' && encoding !== 'buffer') Buffer.from('', encoding as BufferEncoding);
}
