import { propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  ParentBasedSampler,
  AlwaysOnSampler,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import { startProducerSpan } from '../../../lib/context/producer-span';
import { CeleryOutboxError } from '../../../lib/errors';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const SPAN_ID = 'b7ad6b7169203331';
const TRACEPARENT = `00-${TRACE_ID}-${SPAN_ID}-01`;

const taskWith = (headers: unknown): { taskName: string; taskId: string; traceHeaders: string | null } => ({
  taskName: 'orders.process',
  taskId: 'id-1',
  traceHeaders: headers === null ? null : JSON.stringify(headers),
});
const never = (error: unknown): never => {
  throw new Error('reported', { cause: error });
};

describe('the span of a task that is published', () => {
  it('is none where no library is registered', () => {
    expect(startProducerSpan(taskWith({ traceparent: TRACEPARENT }), never)).to.equal(null);
    expect(startProducerSpan({ ...taskWith(null), traceHeaders: 'no JSON' }, never)).to.equal(null);
  });

  describe('with OpenTelemetry', () => {
    const exporter = new InMemorySpanExporter();

    beforeEach(() => {
      exporter.reset();
      trace.setGlobalTracerProvider(
        new BasicTracerProvider({
          sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
          spanProcessors: [new SimpleSpanProcessor(exporter)],
        }),
      );
      propagation.setGlobalPropagator(
        new CompositePropagator({
          propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
        }),
      );
    });
    afterEach(() => {
      trace.disable();
      propagation.disable();
    });

    function published(headers: unknown, ...error: [unknown?]): ReadableSpan {
      startProducerSpan(taskWith(headers), never)!.end(...error);
      const spans = exporter.getFinishedSpans();
      expect(spans).to.have.length(1);
      return spans[0]!;
    }

    it('belongs to the trace that was stored, as a producer, with a link to the stored span', () => {
      const span = published({ traceparent: TRACEPARENT, tracestate: 'vendor=1', baggage: 'user=42' });
      expect(span.name).to.equal('publish orders.process');
      expect(span.kind).to.equal(SpanKind.PRODUCER);
      expect(span.spanContext().traceId).to.equal(TRACE_ID);
      expect(span.spanContext().traceState?.serialize()).to.equal('vendor=1');
      expect(span.parentSpanContext?.spanId).to.equal(SPAN_ID);
      expect(span.links.map(({ context }) => context.spanId)).to.deep.equal([SPAN_ID]);
      expect(span.attributes).to.deep.equal({
        'messaging.system': 'celery',
        'messaging.operation.type': 'send',
        'messaging.operation.name': 'publish',
        'messaging.message.id': 'id-1',
      });
      expect(span.status.code).to.equal(SpanStatusCode.UNSET);
      expect(span.events).to.deep.equal([]);
    });

    it("belongs to a trace of Sentry's as well, whoever was to decide about it", () => {
      for (const decision of ['-1', '']) {
        exporter.reset();
        const span = published({ 'sentry-trace': `${TRACE_ID}-${SPAN_ID}${decision}` });
        expect(span.spanContext().traceId).to.equal(TRACE_ID);
        expect(span.links.map(({ context }) => context.spanId)).to.deep.equal([SPAN_ID]);
      }
    });

    it('is dropped if the stored trace was not recorded', () => {
      for (const headers of [
        { traceparent: `00-${TRACE_ID}-${SPAN_ID}-00` },
        { 'sentry-trace': `${TRACE_ID}-${SPAN_ID}-0` },
      ]) {
        startProducerSpan(taskWith(headers), never)?.end();
        expect(exporter.getFinishedSpans()).to.deep.equal([]);
      }
    });

    it('belongs to the stored trace also without a propagator', () => {
      propagation.disable();
      expect(published({ traceparent: TRACEPARENT }).spanContext().traceId).to.equal(TRACE_ID);
    });

    it('begins a trace of its own if none was stored, or none that can be read', () => {
      for (const headers of [null, {}, { traceparent: 'x' }, { traceparent: 1 }, { mine: 'yes' }]) {
        exporter.reset();
        const span = published(headers);
        expect(span.parentSpanContext).to.equal(undefined);
        expect(span.links).to.deep.equal([]);
      }
    });

    it('records an error, with its code as type', () => {
      const error = new CeleryOutboxError('ERR_CELERY_OUTBOX_UNROUTABLE', 'no queue');
      const span = published({ traceparent: TRACEPARENT }, error);
      expect(span.status).to.deep.equal({ code: SpanStatusCode.ERROR, message: 'no queue' });
      expect(span.attributes['error.type']).to.equal('ERR_CELERY_OUTBOX_UNROUTABLE');
      expect(span.events.map(({ name }) => name)).to.deep.equal(['exception']);
      expect(span.events[0]?.attributes).to.include({ 'exception.message': 'no queue' });
    });

    it('records what is no Error, too', () => {
      const span = published(null, null);
      expect(span.status.code).to.equal(SpanStatusCode.ERROR);
      expect(span.attributes['error.type']).to.equal('Error');
    });

    it('reports what fails, and throws nothing', () => {
      const errors: unknown[] = [];
      const report = (error: unknown): void => void errors.push(error);
      expect(startProducerSpan({ ...taskWith(null), traceHeaders: '{' }, report)).to.equal(null);
      expect(errors[0]).to.be.instanceOf(SyntaxError);
      const failure = new Error('a broken library');
      const fail = (): never => {
        throw failure;
      };
      trace.disable();
      trace.setGlobalTracerProvider({
        getTracer: () => ({ startSpan: () => ({ end: fail }) as never, startActiveSpan: fail }),
      });
      startProducerSpan(taskWith(null), report)!.end();
      expect(errors[1]).to.equal(failure);
      trace.disable();
      trace.setGlobalTracerProvider({ getTracer: fail });
      expect(startProducerSpan(taskWith(null), report)).to.equal(null);
      expect(errors[2]).to.equal(failure);
    });
  });
});
