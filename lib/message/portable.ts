import type { JsonValue } from './json-text';
import { LONE_SURROGATE, MAX_SHORT_STRING_BYTES } from './text';

const MIN_INTEGER = -(2n ** 31n);
const MAX_INTEGER = 2n ** 63n - 1n;

/** What a header should have been to reach every worker unchanged, and what it is. */
export interface PortabilityFault {
  readonly what: string;
  readonly expected: string;
  readonly value: unknown;
}

/**
 * Why a value cannot be a header that every worker reads as it is; null if it can.
 *
 * AMQP has no integers beyond 64 bits, no text but UTF-8, no infinity (RabbitMQ closes the connection) and no names above 255 bytes; and
 * py-amqp 5.1 reads negative integers below 32 bits as huge positive ones.
 */
export function portabilityFault(value: JsonValue): PortabilityFault | null {
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? integerFault(BigInt(value)) : finiteFault(value);
  if (typeof value === 'bigint') return integerFault(value);
  if (typeof value === 'string') return textFaultOf(value);
  if (typeof value !== 'object' || value === null) return null;
  if (Array.isArray(value)) return firstFault(value as readonly JsonValue[]);
  const long = Object.keys(value).find((name) => isTooLong(name));
  if (long !== undefined) {
    return {
      what: 'a name',
      expected: `at most ${String(MAX_SHORT_STRING_BYTES)} bytes of UTF-8`,
      value: long,
    };
  }
  return firstFault(Object.values(value));
}

function firstFault(values: readonly JsonValue[]): PortabilityFault | null {
  for (const value of values) {
    const fault = portabilityFault(value);
    if (fault !== null) return fault;
  }
  return null;
}

function isTooLong(name: string): boolean {
  return name.length * 3 > MAX_SHORT_STRING_BYTES && Buffer.byteLength(name) > MAX_SHORT_STRING_BYTES;
}

function textFaultOf(value: string): PortabilityFault | null {
  if (!LONE_SURROGATE.test(value)) return null;
  return { what: 'a string', expected: 'without lone surrogates, which UTF-8 cannot hold', value };
}

function integerFault(value: bigint): PortabilityFault | null {
  if (value >= MIN_INTEGER && value <= MAX_INTEGER) return null;
  return { what: 'an integer', expected: 'within -2^31 and 2^63 - 1, or a string', value };
}

function finiteFault(value: number): PortabilityFault | null {
  return Number.isFinite(value) ? null : { what: 'a number', expected: 'finite', value };
}
