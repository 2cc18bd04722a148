import { CeleryOutboxError } from '../errors';
import { parseJson, type JsonValue } from './json-text';
import { portabilityFault } from './portable';
import { LOG_CONTEXT_HEADER, PROTOCOL_HEADERS } from './protocol-headers';

type Headers = Readonly<Record<string, JsonValue>>;

const NONE: Headers = Object.freeze({});

/** What travels in headers besides the protocol's own, as JSON objects. */
export interface CarriedHeaders {
  /** Of the call. */
  readonly custom: string | undefined;
  readonly traceHeaders: string | null;
  readonly logContext: string | null;
}

export interface Carried {
  readonly headers: Headers;
  /** Which of them are context of the caller, and not part of the call: those a message can do without. */
  readonly context: readonly string[];
}

const NOTHING: Carried = { headers: NONE, context: [] };

/**
 * The headers beside the protocol's own. At the top level, where OpenTelemetry looks and what Celery >= 5.3 shows as
 * `self.request.headers`; and with `nest` once more under `headers`, for `self.request.headers` of Celery 5.2 and for
 * Sentry. Custom headers win over the context of the caller.
 */
export function carriedHeaders({ custom, traceHeaders, logContext }: CarriedHeaders, nest: boolean): Carried {
  if (custom === undefined && traceHeaders === null && logContext === null) return NOTHING;
  const own = custom === undefined ? NONE : readCustom(custom);
  const context: Headers = {
    ...(traceHeaders !== null && withoutProtocol(portable(readObject(traceHeaders)))),
    ...(logContext !== null && { [LOG_CONTEXT_HEADER]: portable(readObject(logContext)) }),
  };
  const names = Object.keys(context).filter((name) => !Object.hasOwn(own, name));
  return { headers: nested({ ...context, ...own }, nest), context: names };
}

/** The same headers without some of them, at the top level and nested. */
export function withoutHeaders(headers: Headers, names: readonly string[]): Headers {
  const kept = Object.entries(headers).filter(([name]) => !names.includes(name));
  return Object.fromEntries(
    kept.map(([name, value]) => [
      name,
      name === 'headers' && isObject(value) ? withoutHeaders(value, names) : value,
    ]),
  );
}

function nested(headers: Headers, nest: boolean): Headers {
  const { headers: given = NONE, ...others } = headers;
  if (!nest || !isObject(given) || Object.keys(headers).length === 0) return headers;
  return { ...others, headers: { ...others, ...given } };
}

// A trace source of the user's may say anything.
function withoutProtocol(headers: Headers): Headers {
  const kept = Object.entries(headers).filter(([name]) => !PROTOCOL_HEADERS.has(name) && name !== 'headers');
  return Object.fromEntries(kept);
}

// Checked when they were written; but a row can be edited, and RabbitMQ would close the connection.
function readCustom(text: string): Headers {
  const headers = readObject(text);
  const fault = portabilityFault(headers);
  if (fault === null) return headers;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `Option headers: ${fault.what} must be ${fault.expected}`,
  );
}

/** Context that not every worker could read is left out: telemetry must not stop a task. */
function portable(context: Headers): Headers {
  if (portabilityFault(context) === null) return context;
  const kept = Object.entries(context).filter(
    ([name, value]) => portabilityFault({ [name]: value }) === null,
  );
  return Object.fromEntries(kept);
}

function readObject(text: string): Headers {
  const value = parseJson(text);
  return isObject(value) ? value : NONE;
}

function isObject(value: JsonValue): value is Headers {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
