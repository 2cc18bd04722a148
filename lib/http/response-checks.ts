import { validateHeaderName, validateHeaderValue } from 'node:http';

// Node checks these when it writes. A held response is written after the COMMIT, when it is too late to tell
// the handler, so they are checked when they are given, with Node's own codes.

/** The arguments of writeHead: (status, message?, headers?). */
export function assertHead([status, message, headers]: readonly unknown[]): void {
  if (!Number.isInteger(Number(status)) || Number(status) < 100 || Number(status) > 999) {
    throw coded(RangeError, 'ERR_HTTP_INVALID_STATUS_CODE', `Invalid status code: ${String(status)}`);
  }

  if (typeof message === 'string' && /[^\t\x20-\x7e\x80-\xff]/.test(message)) {
    throw coded(TypeError, 'ERR_INVALID_CHAR', 'Invalid character in statusMessage');
  }
  for (const [name, value] of headerPairs(typeof message === 'string' ? headers : (message ?? headers))) {
    validateHeaderName(name);
    for (const one of Array.isArray(value) ? value : [value]) validateHeaderValue(name, String(one));
  }
}

/** The body argument of write and end. */
export function assertChunk(chunk: unknown): void {
  if (typeof chunk === 'string' || chunk instanceof Uint8Array) return;
  if (chunk === null) {
    throw coded(TypeError, 'ERR_STREAM_NULL_VALUES', 'May not write null values to stream');
  }
  throw coded(
    TypeError,
    'ERR_INVALID_ARG_TYPE',
    `The "chunk" argument must be of type string or an instance of Buffer or Uint8Array. Received type ${typeof chunk}`,
  );
}

// writeHead takes an object, a flat list (name, value, name, value) or a list of pairs.
function headerPairs(headers: unknown): [string, unknown][] {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {});
  if (headers.every(Array.isArray)) return headers as unknown as [string, unknown][];
  const pairs: [string, unknown][] = [];
  for (let index = 0; index < headers.length; index += 2)
    pairs.push([String(headers[index]), headers[index + 1]]);
  return pairs;
}

function coded(type: ErrorConstructor, code: string, message: string): Error {
  return Object.assign(new type(message), { code });
}
