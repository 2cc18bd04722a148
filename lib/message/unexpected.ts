import { CeleryOutboxError, type ErrorCode } from '../errors';

const MAX_SHOWN = 40;

/**
 * Type and short value of anything, for error messages.
 *
 * Never a whole payload, and never code of the value itself: no `toString`, no getter but the tag's.
 */
export function describeValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `string ${JSON.stringify(shorten(value))}`;
    case 'number':
    case 'boolean':
    case 'bigint':
      return `${typeof value} ${shorten(String(value))}`;
    case 'object':
      return describeObject(value);
    default:
      return typeof value;
  }
}

/** An error that names what was wrong, what was expected and what came. */
export function unexpected(code: ErrorCode, what: string, expected: string, got: unknown): CeleryOutboxError {
  return new CeleryOutboxError(code, `${what} must be ${expected}, got ${describeValue(got)}`);
}

export function shorten(text: string, max = MAX_SHOWN): string {
  return text.length <= max ? text : `${text.slice(0, max)}…`;
}

function describeObject(value: object | null): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  const tag = tagOf(value);
  return tag === 'Object' ? 'an object' : `a value of type ${shorten(tag)}`;
}

/** `Map`, `Date`, `Object`…: what `Object.prototype.toString` calls it. */
export function tagOf(value: object): string {
  try {
    return Object.prototype.toString.call(value).slice('[object '.length, -1);
  } catch {
    return 'unknown';
  }
}
