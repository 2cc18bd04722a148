import type { ServerResponse } from 'node:http';
import { restoreMethods, snapshotMethods } from './response-shadow';

// Besides the headers: removing one leaves a note, which would change the head of the next answer.
const HEAD_FIELDS = [
  'statusCode',
  'statusMessage',
  'sendDate',
  '_removedConnection',
  '_removedContLen',
  '_removedTE',
  '_trailer',
] as const;

/** @returns what brings status, headers and methods of a response that has not begun back to where they are now. */
export function rememberResponse(res: ServerResponse): () => void {
  const fields = HEAD_FIELDS.map((name) => [name, Reflect.get(res, name) as unknown] as const);
  const headers = rawHeaderNames(res).map((name) => [name, copyOf(res.getHeader(name))] as const);
  const methods = snapshotMethods(res);
  return () => {
    restoreMethods(res, methods);
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, value] of headers) if (value !== undefined) res.setHeader(name, value);
    Object.assign(res, Object.fromEntries(fields));
  };
}

type HeaderValue = ReturnType<ServerResponse['getHeader']>;

// appendHeader adds to the list that is there.
function copyOf(value: HeaderValue): HeaderValue {
  return Array.isArray(value) ? [...value] : value;
}

// As they were written, X-Powered-By and not x-powered-by. On every response since Node 15.4, but only in the
// types of the client's requests.
function rawHeaderNames(res: ServerResponse): string[] {
  return (res as unknown as { getRawHeaderNames(): string[] }).getRawHeaderNames();
}
