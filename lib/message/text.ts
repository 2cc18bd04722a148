/** AMQP's short string, which carries ids, queue, exchange, routing key and header names. */
export const MAX_SHORT_STRING_BYTES = 255;

/** UTF-8 cannot hold half of a pair. */
export const LONE_SURROGATE = /\p{Surrogate}/u;

export interface TextRule {
  maxBytes?: number;
  mayBeEmpty?: boolean;
}

/**
 * What a string should have been, or null if it is fine.
 *
 * NUL and lone surrogates are always refused: a text column of PostgreSQL cannot hold them, and UTF-8 on the way to
 * the broker would replace the latter.
 */
export function textFault(
  value: unknown,
  { maxBytes = Infinity, mayBeEmpty = false }: TextRule,
): string | null {
  if (typeof value !== 'string') return mayBeEmpty ? 'a string' : 'a non-empty string';
  if (value === '' && !mayBeEmpty) return 'a non-empty string';
  if (value.includes('\0')) return 'a string without NUL characters';
  if (LONE_SURROGATE.test(value)) return 'a string without lone surrogates';
  // A UTF-16 unit is at most three bytes: most strings need not be counted.
  if (value.length * 3 <= maxBytes) return null;
  return Buffer.byteLength(value) <= maxBytes ? null : `at most ${String(maxBytes)} bytes of UTF-8`;
}
