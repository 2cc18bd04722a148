import { setTimeout as sleep } from 'node:timers/promises';
import { isRefusal, sqlState } from '../store/database-error';
import type { Lease } from './lease';
import type { PassSummary } from './outcome';
import type { Changed, RelayStore } from './relay-store';
import type { Settlement } from './settlement';

const RETRY_AFTER_MS = 200;
/** How often a list that the database refuses is tried as a whole. */
const REFUSALS = 3;
/**
 * Refusals that pass by themselves, as an outage does: rollback (a deadlock), lack of resources (a full disk), a lock
 * that is not free, and a server that is read-only during a failover.
 */
const PASSING = /^(?:40|53|55P03|25006)/;

/** What was written, and what somebody else has taken over. */
export interface Settled {
  readonly written: Settlement;
  readonly summary: Omit<PassSummary, 'claimed'>;
  /** Rows whose claim was lost: they are their new owner's. */
  readonly lost: number;
}

interface Item {
  readonly id: string;
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
 * refuses for good, as a whole and then row by row, is given up and left to the lease: it must not pin its batch.
 */
export async function settle(token: string, settlement: Settlement, parts: SettleParts): Promise<Settled> {
  const { store } = parts;
  const write = <T extends Item>(items: readonly T[], step: Step<T>): Promise<T[]> =>
    writeAll(items, step, parts);
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

async function writeAll<T extends Item>(
  items: readonly T[],
  step: Step<T>,
  parts: SettleParts,
): Promise<T[]> {
  if (items.length === 0) return [];
  const changed = await attempt(() => step(items), REFUSALS, parts);
  if (changed !== null) return items.filter(({ id }) => changed.has(id));
  if (items.length === 1) return [];
  // One row may be to blame for all of them.
  const written: T[] = [];
  for (const item of items) {
    if (parts.abandoned.aborted) break;
    parts.onAttempt();
    const alone = await attempt(() => step([item]), 1, parts);
    if (alone?.has(item.id) === true) written.push(item);
  }
  return written;
}

/** @returns null if it was refused so often, or abandoned */
async function attempt(
  step: () => Promise<Changed>,
  maxRefusals: number,
  { lease, onError, onAttempt, abandoned }: SettleParts,
): Promise<Changed | null> {
  for (let refusals = 0; ;) {
    try {
      return await step();
    } catch (error) {
      onError(error);
      if (isForGood(error)) refusals += 1;
      const isPointless = refusals >= maxRefusals || (refusals > 0 && lease.remainingMs === 0);
      if (isPointless || abandoned.aborted) return null;
      onAttempt();
      await sleep(RETRY_AFTER_MS, undefined, { signal: abandoned }).catch(() => undefined);
    }
  }
}

function isForGood(error: unknown): boolean {
  const { cause } = error as Error;
  return isRefusal(cause) && !PASSING.test(sqlState(cause) ?? '');
}

function sizeOf({ sent, retried, dead, deferred, released }: Settlement): number {
  return sent.length + retried.length + dead.length + deferred.length + released.length;
}

const idsOf = (rows: readonly Item[]): string[] => rows.map(({ id }) => id);
