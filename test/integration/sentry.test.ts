import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createDatabase } from '../support/database';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const SPAN_ID = 'b7ad6b7169203331';

describe('Sentry', () => {
  // In a process of its own: Sentry.init() instruments all of it.
  async function run(fixture: string, ...args: string[]): Promise<unknown> {
    const script = require.resolve(`./fixtures/${fixture}.ts`);
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script, ...args]);
    return JSON.parse(stdout);
  }

  it('gives its trace to tasks, besides the baggage of others', async () => {
    const db = await createDatabase();
    try {
      const { traceId } = (await run('sentry-sender', db.url)) as { traceId: string };
      const [row] = await db.rows();
      const headers = JSON.parse(row?.trace_headers ?? 'null') as Record<string, string>;
      expect(headers['sentry-trace']).to.match(new RegExp(`^${traceId}-[0-9a-f]{16}-1$`));
      expect(headers['baggage']).to.include(`sentry-trace_id=${traceId}`);
    } finally {
      await db.close();
    }
  });

  interface Published {
    spans: {
      name: string;
      trace_id: string;
      parent_span_id: string;
      status: string;
      attributes: Record<string, { value: unknown } | undefined>;
      links: { trace_id: string; span_id: string }[];
    }[];
    errors: string[];
    started: boolean[];
  }
  const publish = (sampleRate: string, ...headers: object[]): Promise<Published> =>
    run('sentry-publisher', sampleRate, ...headers.map((each) => JSON.stringify(each))) as Promise<Published>;

  it('gets a span for each task that is published, in the trace that was stored by either library', async () => {
    const { spans, errors } = await publish(
      '1',
      { 'sentry-trace': `${TRACE_ID}-${SPAN_ID}-1`, baggage: `k=v,sentry-trace_id=${TRACE_ID}` },
      { traceparent: `00-${TRACE_ID}-${SPAN_ID}-01` },
    );
    expect(errors).to.deep.equal([]);
    expect(spans.map(({ status }) => status)).to.deep.equal(['ok', 'error']);
    for (const span of spans) {
      expect(span).to.include({
        name: 'publish orders.process',
        trace_id: TRACE_ID,
        parent_span_id: SPAN_ID,
      });
      expect(span.links[0]).to.include({ trace_id: TRACE_ID, span_id: SPAN_ID });
      const valueOf = (name: string): unknown => span.attributes[name]?.value;
      expect(valueOf('sentry.op')).to.equal('queue.publish');
      expect(valueOf('sentry.kind')).to.equal('producer');
      expect(valueOf('messaging.system')).to.equal('celery');
      expect(valueOf('messaging.operation.type')).to.equal('send');
      expect(valueOf('messaging.message.id')).to.equal('id-1');
    }
    expect(spans[1]?.attributes['error.type']?.value).to.equal('Error');
  });

  it('begins a trace with a task that was stored without one', async () => {
    const { spans } = await publish('1', {});
    expect(spans).to.have.length(1);
    expect(spans[0]).not.to.have.property('parent_span_id');
    expect(spans[0]?.trace_id).not.to.equal(TRACE_ID);
  });

  it('gets no span of a trace that is not sampled, nor where it does not trace', async () => {
    const unsampled = await publish('1', { 'sentry-trace': `${TRACE_ID}-${SPAN_ID}-0` });
    expect(unsampled).to.deep.include({ spans: [], errors: [] });
    const untraced = await publish('none', { 'sentry-trace': `${TRACE_ID}-${SPAN_ID}-1` });
    expect(untraced).to.deep.include({ spans: [], errors: [] });
  });
});
