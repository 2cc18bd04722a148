import type { ClaimedRow } from '../../../lib/store/relay/claim';

export function row(id: string, parts: Partial<ClaimedRow> = {}): ClaimedRow {
  return {
    id,
    taskId: `task-${id}`,
    taskName: 'tests.noop',
    args: '[]',
    kwargs: '{}',
    options: '{}',
    redactedArgs: null,
    redactedKwargs: null,
    traceHeaders: null,
    logContext: null,
    orderingKey: null,
    retries: 0,
    ...parts,
  };
}
