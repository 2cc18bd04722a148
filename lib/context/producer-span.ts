import type { SpanContext } from '@opentelemetry/api';
import type { startInactiveSpan } from '@sentry/node';
import { readStoredSpan, type StoredSpan, toSentryTrace } from './stored-span';
import type { TraceHeaders } from './trace-headers';
import { hasTracerProvider, initialisedSentry, openTelemetry } from './tracing-libraries';

/** Started when a stored task is handed to the broker; ended with its outcome. */
export interface ProducerSpan {
  end(error?: unknown): void;
}

/** What a span tells of the task that is published. */
export interface PublishedTask {
  readonly taskName: string;
  readonly taskId: string;
  /** As they were stored with the task: JSON. */
  readonly traceHeaders: string | null;
}

/** What the spans of both libraries can do. */
interface Span {
  recordException(error: Error): void;
  setAttribute(name: string, value: string): unknown;
  setStatus(status: { code: typeof ERROR; message: string }): unknown;
  end(): void;
}
interface Started {
  readonly span: Span;
  /** What the library calls a failure. */
  readonly statusOf: (error: Error) => string;
}
type Start = (task: PublishedTask, headers: TraceHeaders) => Started;

// The numbers of OpenTelemetry's SpanKind, SpanStatusCode and TraceFlags, which Sentry shares.
const PRODUCER = 3;
const ERROR = 2;
const SAMPLED = 1;

/**
 * Starts a span in the trace that the task was stored in: with Sentry if it traces here, else with OpenTelemetry.
 * Neither this nor the span's `end` ever throws: telemetry must not keep a task from being sent.
 *
 * @returns null if neither library is there.
 */
export function startProducerSpan(
  task: PublishedTask,
  onError: (error: unknown) => void,
): ProducerSpan | null {
  try {
    const start = sentryStart() ?? openTelemetryStart();
    if (start === undefined) return null;
    const started = start(task, JSON.parse(task.traceHeaders ?? '{}') as TraceHeaders);
    return {
      end(error) {
        try {
          end(started, error);
        } catch (failure) {
          onError(failure);
        }
      },
    };
  } catch (error) {
    onError(error);
    return null;
  }
}

function end({ span, statusOf }: Started, error: unknown): void {
  if (error !== undefined) {
    const failure = error instanceof Error ? error : new Error(`not an Error, but ${typeof error}`);
    span.recordException(failure);
    span.setAttribute('error.type', 'code' in failure ? String(failure.code) : failure.name);
    span.setStatus({ code: ERROR, message: statusOf(failure) });
  }
  span.end();
}

// Sentry may be there for errors alone, beside a tracer of OpenTelemetry.
function sentryStart(): Start | undefined {
  const sentry = initialisedSentry();
  const options = sentry?.getClient()?.getOptions();
  if (sentry === undefined || options === undefined) return undefined;
  if ((options.tracesSampleRate ?? options.tracesSampler) === undefined) return undefined;
  return (task, headers) => {
    const stored = readStoredSpan(headers);
    // `kind` is for Sentry before 11, which hands it on to OpenTelemetry.
    const spanOptions: Parameters<typeof startInactiveSpan>[0] & { kind: number } = {
      name: nameOf(task),
      op: 'queue.publish',
      kind: PRODUCER,
      attributes: { ...attributesOf(task), 'sentry.kind': 'producer' },
      links: stored ? [{ context: contextOf(stored) }] : [],
    };
    const sentryTrace = stored && toSentryTrace(stored);
    const span = sentry.continueTrace({ sentryTrace, baggage: headers['baggage'] }, () =>
      sentry.startInactiveSpan(spanOptions),
    );
    // Other words are not among Sentry's.
    return { span, statusOf: () => 'internal_error' };
  };
}

function openTelemetryStart(): Start | undefined {
  const api = hasTracerProvider() ? openTelemetry() : undefined;
  if (api === undefined) return undefined;
  return (task, headers) => {
    const extracted = api.propagation.extract(api.ROOT_CONTEXT, headers);
    const stored = readStoredSpan(headers);
    const context = api.trace.getSpanContext(extracted) ?? (stored && contextOf(stored));
    const spanOptions = {
      kind: api.SpanKind.PRODUCER,
      attributes: attributesOf(task),
      links: context ? [{ context }] : [],
    };
    const parent = context ? api.trace.setSpanContext(extracted, context) : extracted;
    const span = api.trace.getTracer('express-celery-outbox').startSpan(nameOf(task), spanOptions, parent);
    return { span, statusOf: (error) => error.message };
  };
}

const nameOf = ({ taskName }: PublishedTask): string => `publish ${taskName}`;

const attributesOf = ({ taskId }: PublishedTask): Record<string, string> => ({
  'messaging.system': 'celery',
  'messaging.operation.type': 'send',
  'messaging.operation.name': 'publish',
  'messaging.message.id': taskId,
});

// A decision that was left open is ours: samplers that follow the parent would drop the span.
function contextOf({ traceId, spanId, isSampled }: StoredSpan): SpanContext {
  return { traceId, spanId, traceFlags: isSampled === false ? 0 : SAMPLED, isRemote: true };
}
