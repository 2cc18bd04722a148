import { AsyncLocalStorage } from 'node:async_hooks';
import { initialisedSentry, openTelemetry } from './tracing-libraries';

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

function openTelemetryHeaders(): TraceHeaders {
  const api = openTelemetry();
  const carrier: Record<string, string> = {};
  api?.propagation.inject(api.context.active(), carrier);
  return carrier;
}

function sentryHeaders(): TraceHeaders {
  return { ...initialisedSentry()?.getTraceData() };
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
