import { AsyncLocalStorage } from 'node:async_hooks';

export type TraceHeaders = Readonly<Record<string, string>>;

/** Gives the trace headers of a call instead of Sentry, OpenTelemetry and the incoming request. */
export type TraceSource = () => TraceHeaders;

const PROPAGATED = ['traceparent', 'tracestate', 'sentry-trace', 'baggage'] as const;
/** @internal */
export const incomingTrace = new AsyncLocalStorage<TraceHeaders>();

/** Runs `fn` with the trace headers of an incoming request as the ones to fall back to. */
export function withIncomingTrace<T>(headers: Readonly<Record<string, unknown>>, fn: () => T): T {
  const found: Record<string, string> = {};
  for (const name of PROPAGATED) {
    const value = headers[name];
    if (typeof value === 'string') found[name] = value;
  }
  return incomingTrace.run(found, fn);
}

/**
 * The trace that a message sent from here belongs to: what OpenTelemetry and Sentry would send, if one of them
 * is running, else what came in with the request. A library that fails is passed over and reported.
 */
export function currentTraceHeaders(onError: (error: unknown) => void): TraceHeaders {
  const active = mergeTraces(attempt(openTelemetryHeaders, onError), attempt(sentryHeaders, onError));
  return Object.keys(active).length > 0 ? active : (incomingTrace.getStore() ?? {});
}

function attempt(source: () => TraceHeaders, onError: (error: unknown) => void): TraceHeaders {
  try {
    return source();
  } catch (error) {
    onError(error);
    return {};
  }
}

// Both libraries announce themselves on globalThis, across copies and module systems. Asking there first
// means that neither is ever loaded by us into a process that does not use it.
function openTelemetryHeaders(): TraceHeaders {
  if (!(Symbol.for('opentelemetry.js.api.1') in globalThis)) return {};
  const api = loadOnce('@opentelemetry/api') as typeof import('@opentelemetry/api') | undefined;
  const carrier: Record<string, string> = {};
  api?.propagation.inject(api.context.active(), carrier);
  return carrier;
}

function sentryHeaders(): TraceHeaders {
  if (!('__SENTRY__' in globalThis)) return {};
  const sentry = loadOnce('@sentry/node') as typeof import('@sentry/node') | undefined;
  return sentry?.isInitialized() === true ? { ...sentry.getTraceData() } : {};
}

const unloadable = new Set<string>();

// A package that cannot be loaded from here (another copy runs) is reported once, not with every task.
function loadOnce(name: string): unknown {
  if (unloadable.has(name)) return undefined;
  try {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- an optional peer, loaded only where it runs
    return require(name);
  } catch (error) {
    unloadable.add(name);
    throw error;
  }
}

function mergeTraces(first: TraceHeaders, second: TraceHeaders): TraceHeaders {
  const merged: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...first, ...second })) {
    if (typeof value === 'string' && value !== '') merged[name.toLowerCase()] = value;
  }
  const baggage = mergeBaggage(first['baggage'], second['baggage']);
  if (baggage !== undefined) merged['baggage'] = baggage;
  return merged;
}

// Sentry's baggage has only Sentry's members, OpenTelemetry's only the user's: neither may push out the other.
function mergeBaggage(first: string | undefined, second: string | undefined): string | undefined {
  const members = [first, second].flatMap((list) => list?.split(',') ?? []).map((member) => member.trim());
  const byKey = new Map(members.filter(Boolean).map((member) => [member.split('=')[0], member]));
  return byKey.size === 0 ? undefined : [...byKey.values()].join(',');
}
