import { type ProducerSpan, startProducerSpan } from '../context/producer-span';
import type { Publisher } from '../broker/publisher';
import type { ClaimedRow } from '../store/relay/claim';
import type { Publish } from './outcome';
import type { Report } from './report';

/** Publishes rows as Celery messages, each within a span of the trace that it was stored in. */
export function publishRows(publisher: Publisher, report: Report): Publish {
  return async (rows) => {
    const spans = rows.map((row) => startSpan(row, report));
    const outcomes = await publisher.publish(rows);
    for (const [index, span] of spans.entries()) {
      const outcome = outcomes[index];
      span?.end(outcome?.status === 'published' ? undefined : outcome?.error);
    }
    return outcomes;
  };
}

function startSpan(row: ClaimedRow, report: Report): ProducerSpan | null {
  return startProducerSpan(row, (error) => {
    report.log(row, 'warn', 'celery_outbox_context_failed', { error });
  });
}
