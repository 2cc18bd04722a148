import { setTimeout as sleep } from 'node:timers/promises';
import { isRefusal } from '../store/database-error';
import type { Lease } from './lease';
import type { PassSummary } from './outcome';
import type { Changed, RelayStore } from './relay-store';
import type { Settlement } from './settlement';

const RETRY_AFTER_MS = 200;

/** What was written, and what somebody else has taken over. */
export interface Settled {
  readonly written: Settlement;
  readonly summary: Omit<PassSummary, 'claimed'>;
  /** Rows whose claim was lost: they are their new owner's. */
  readonly lost: number;
}

type Step<T> = (items: readonly T[]) => Promise<Changed>;

export interface SettleParts {
  readonly store: RelayStore;
  readonly lease: Pick<Lease, 'remainingMs'>;
  /** Told of every attempt that fails; there may be hundreds. */
  readonly onError: (error: unknown) => void;
  /** Told of every further attempt. */
  readonly onAttempt: () => void;
  /** Nobody waits for it any more. */
  readonly abandoned: AbortSignal;
}

/**
 * Writes a settlement. While the database does not answer it is tried again, also when the lease is over, for then
 * nobody else can have claimed the rows: one that was sent and is not deleted is sent once more. What the database
 * refuses is given up with the lease.
 */
export async function settle(
  token: string,
  settlement: Settlement,
  { store, lease, onError, onAttempt, abandoned }: SettleParts,
): Promise<Settled> {
  const write = async <T extends { readonly id: string }>(
    items: readonly T[],
    step: Step<T>,
  ): Promise<T[]> => {
    if (items.length === 0) return [];
    for (;;) {
      try {
        const changed = await step(items);
        return items.filter(({ id }) => changed.has(id));
      } catch (error) {
        onError(error);
        const isPointless = isRefusal((error as Error).cause) && lease.remainingMs === 0;
        if (isPointless || abandoned.aborted) return [];
        onAttempt();
        await sleep(RETRY_AFTER_MS, undefined, { signal: abandoned }).catch(() => undefined);
      }
    }
  };
  // What was sent first: until it is deleted, it could be sent again.
  const sent = await write(settlement.sent, (rows) => store.complete({ token, ids: idsOf(rows) }));
  const [retried, dead, deferred, released] = await Promise.all([
    write(settlement.retried, (rows) => store.retry(token, rows)),
    write(settlement.dead, (rows) => store.bury(token, rows)),
    write(settlement.deferred, (rows) => store.defer(token, rows)),
    write(settlement.released, (rows) => store.release({ token, ids: idsOf(rows) })),
  ]);
  const written = { sent, retried, dead, deferred, released };
  return {
    written,
    summary: {
      published: settlement.sent.length,
      failed: settlement.retried.length + settlement.dead.length,
      deferred: deferred.length,
      deadLettered: dead.length,
      released: released.length,
    },
    lost: sizeOf(settlement) - sizeOf(written),
  };
}

function sizeOf({ sent, retried, dead, deferred, released }: Settlement): number {
  return sent.length + retried.length + dead.length + deferred.length + released.length;
}

const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id);
