import type { TraceHeaders } from './trace-headers';

/** The span that a task was stored in, as its trace headers name it. */
export interface StoredSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined where Sentry left the decision to whoever comes next. */
  readonly isSampled: boolean | undefined;
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/;
const SENTRY_TRACE = /^([0-9a-f]{32})-([0-9a-f]{16})(?:-([01]))?$/;

/**
 * Reads either library's header: a task may be stored by a process with the one and published by a process with the
 * other.
 */
export function readStoredSpan(headers: TraceHeaders): StoredSpan | undefined {
  return readSentryTrace(headers['sentry-trace']) ?? readTraceparent(headers['traceparent']);
}

/** The same as a header of Sentry's. */
export function toSentryTrace({ traceId, spanId, isSampled }: StoredSpan): string {
  const decision = isSampled === undefined ? '' : `-${isSampled ? '1' : '0'}`;
  return `${traceId}-${spanId}${decision}`;
}

function readTraceparent(header: unknown): StoredSpan | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(String(header)) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, isSampled: (parseInt(flags, 16) & 1) === 1 };
}

function readSentryTrace(header: unknown): StoredSpan | undefined {
  const [, traceId, spanId, decision] = SENTRY_TRACE.exec(String(header)) ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  return { traceId, spanId, isSampled: decision === undefined ? undefined : decision === '1' };
}
