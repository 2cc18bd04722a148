const ISO =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?$/i;
const MIN_MS = Date.parse('0001-01-01T00:00:00.000Z');
const MAX_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * The instant as `YYYY-MM-DDTHH:MM:SS.ffffff+00:00`, or null if it is none or lies outside Python's years 1…9999.
 *
 * Six digits always: Celery 5.2 reads `.900` as 900 microseconds and starts the task early. A string without offset is
 * UTC, as in Celery; digits after the microsecond are cut off.
 */
export function formatInstant(value: unknown): string | null {
  if (value instanceof Date) return formatMicroseconds(value.getTime(), 0);
  return typeof value === 'string' ? formatIsoString(value) : null;
}

/** What Celery 5.2 reads as the instant that it is. */
const READABLE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?(Z|[+-]\d\d:\d\d)?$/;

/**
 * The instant as Celery writes it inside a signature: a date as kombu encodes it, a string as it was given, unless a
 * worker would misread it. Null as in {@link formatInstant}.
 */
export function embedInstant(value: unknown): string | null {
  const formatted = formatInstant(value);
  if (formatted === null) return null;
  if (typeof value === 'string') return READABLE.test(value) ? value : formatted;
  return formatted.replace('.000000', '').replace('+00:00', 'Z');
}

/** `now` plus a number of seconds, to the microsecond; null outside the years 1…9999. */
export function formatAfter(now: Date, seconds: number): string | null {
  // Not in one number: microseconds since 1970 are exact only until the year 2255.
  const whole = Math.floor(seconds);
  const micros = Math.round((seconds - whole) * 1e6);
  const millis = Math.floor(micros / 1000);
  return formatMicroseconds(now.getTime() + whole * 1000 + millis, micros - millis * 1000);
}

function formatIsoString(text: string): string | null {
  const match = ISO.exec(text);
  if (!match) return null;
  const [, date = '', time = '00:00', second = '00', fraction = '', offset = 'Z'] = match;
  const local = `${date}T${time}:${second}`;
  const localMs = Date.parse(`${local}Z`);
  // Date.parse turns 30 February into 2 March and 24:00 into the next day.
  if (Number.isNaN(localMs) || new Date(localMs).toISOString().slice(0, 19) !== local) return null;
  const digits = fraction.padEnd(6, '0');
  return formatMicroseconds(
    localMs - offsetMs(offset) + Number(digits.slice(0, 3)),
    Number(digits.slice(3, 6)),
  );
}

function offsetMs(offset: string): number {
  if (offset.toUpperCase() === 'Z') return 0;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2));
  return (offset.startsWith('-') ? -1 : 1) * minutes * 60_000;
}

function formatMicroseconds(ms: number, micros: number): string | null {
  if (!(ms >= MIN_MS && ms <= MAX_MS)) return null;
  return `${new Date(ms).toISOString().slice(0, -1)}${String(micros).padStart(3, '0')}+00:00`;
}
