import type { CeleryOutboxError } from '../errors';
import type { ClaimedRow } from '../store/relay/claim';

/**
 * What became of a row that was handed over. The engine knows no more of what it publishes.
 *
 * - `published`: it arrived, acknowledged.
 * - `fault`: its own fault; it will fail again while nothing changes.
 * - `outage`: nobody was there to take it. It may have arrived nevertheless.
 */
export type RowOutcome =
  | { readonly status: 'published' }
  | { readonly status: 'fault' | 'outage'; readonly error: CeleryOutboxError };

/** Hands rows over, and answers with an outcome for each, in their order. Never rejects, always ends. */
export type Publish = (rows: readonly ClaimedRow[]) => Promise<readonly RowOutcome[]>;

/** What a pass did. */
export interface PassSummary {
  readonly claimed: number;
  readonly published: number;
  readonly failed: number;
  readonly deferred: number;
  readonly deadLettered: number;
  readonly released: number;
}

export const NOTHING_DONE: PassSummary = Object.freeze({
  claimed: 0,
  published: 0,
  failed: 0,
  deferred: 0,
  deadLettered: 0,
  released: 0,
});

export function added(a: PassSummary, b: PassSummary): PassSummary {
  const names = Object.keys(NOTHING_DONE) as (keyof PassSummary)[];
  return Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as PassSummary;
}
