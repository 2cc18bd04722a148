import { snapshotJson, type EncodedJson } from './json';
import { parseJson } from './json-text';
import { isPlainObject } from './plain-object';
import { portabilityFault, type PortabilityFault } from './portable';
import { PROTOCOL_HEADERS } from './protocol-headers';
import { MAX_SHORT_STRING_BYTES, textFault } from './text';

/**
 * AMQP's field table may hold 64 KiB in amqplib. As a table the JSON can grow 2.5 times, it is sent twice, and the
 * protocol's own headers take up to 12 KiB.
 */
const MAX_HEADERS_BYTES = 8192;

/** What custom headers should have been, and what came instead. */
export type HeaderFault = PortabilityFault;

/** @throws ERR_CELERY_OUTBOX_UNENCODABLE for a value that is not JSON */
export function encodeHeaders(value: unknown, option: string): EncodedJson | HeaderFault {
  if (!isPlainObject(value)) return { what: option, expected: 'a plain object', value };
  const badName = Object.keys(value).map((name) => nameFault(name, option));
  const named = badName.find((fault) => fault !== null);
  if (named) return named;
  const encoded = snapshotJson(value, option);
  return sizeFault(encoded.text, option) ?? valueFault(encoded.text, option) ?? encoded;
}

function nameFault(name: string, option: string): HeaderFault | null {
  const what = `${option}: a header name`;
  const expected = textFault(name, { maxBytes: MAX_SHORT_STRING_BYTES });
  if (expected !== null) return { what, expected, value: name };
  if (PROTOCOL_HEADERS.has(name)) return { what, expected: "none of the Celery protocol's own", value: name };
  return name === '__proto__' ? { what, expected: 'a name that JavaScript keeps', value: name } : null;
}

function sizeFault(text: string, option: string): HeaderFault | null {
  const bytes = Buffer.byteLength(text);
  if (bytes <= MAX_HEADERS_BYTES) return null;
  return { what: option, expected: `at most ${String(MAX_HEADERS_BYTES)} bytes of JSON`, value: bytes };
}

function valueFault(text: string, option: string): HeaderFault | null {
  const fault = portabilityFault(parseJson(text));
  return fault === null ? null : { ...fault, what: `${option}: ${fault.what}` };
}
