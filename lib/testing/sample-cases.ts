import { deflateSync } from 'node:zlib';
import type { JsonValue } from '../message/json-text';
import { bodyOf, type SampleParts } from './sample-message';

const TEXT = 'żółć, Ελληνικά, 日本語, العربية, 👩‍👩‍👧 "quoted" \\ \u0000 \u2028 \u{10ffff}';
const MEGABYTE = 2 ** 20;
const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const NUMBERS = [
  ...[0, -1, 127, 128, -128, -129, 255, 256, 32_767, 32_768, -32_769, 65_535, 65_536],
  ...[2 ** 31 - 1, 2 ** 31, -(2 ** 31) - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
  ...[0.1, -0.5, 1e21, 1e300, 5e-324],
];

/** What a message may hold, by name: each of them has to arrive as it was given. */
export const SAMPLE_CASES: Readonly<Record<string, SampleParts>> = {
  'a task without arguments': { body: bodyOf('[]', '{}') },
  'text of any script': {
    headers: { text: TEXT, [TEXT.slice(0, 20)]: '' },
    body: bodyOf(`["${TEXT}"]`, '{}'),
  },
  'a body of a megabyte': { body: bodyOf(`["${'x'.repeat(MEGABYTE)}"]`, '{}') },
  'a compressed body': {
    headers: { compression: 'application/x-gzip' },
    body: Buffer.concat([deflateSync(bodyOf('[]', '{}')), BYTES]),
  },
  'every kind of number': { headers: { numbers: NUMBERS } },
  'integers that a number cannot hold': {
    headers: { odd: 2n ** 53n + 1n, most: 2n ** 63n - 1n, list: [-(2n ** 63n), { deep: -(2n ** 53n) - 1n }] },
  },
  'nested headers': {
    headers: { headers: { a: [{ b: [null, true, false, ''] }, []] }, none: {}, deep: nested(100) },
  },
  'every property': {
    properties: {
      ...{ correlationId: 'another', replyTo: 'reply-ü', priority: 5, expiration: '3600000' },
      ...{ messageId: 'message-id', appId: 'app-id', type: 'type', timestamp: 1_700_000_000 },
    },
  },
  'a transient message': { properties: { deliveryMode: 1 } },
};

function nested(depth: number): JsonValue {
  return depth === 0 ? 'bottom' : { level: [nested(depth - 1)] };
}
