import { inspect } from 'node:util';
import type { ClaimedRow } from '../store/relay/claim';
import type { DeadRow, Failure, RetriedRow } from '../store/relay/settle';
import type { Delivered, Delivery } from './batch';
import type { Retries } from './retry-policy';

/** What is to become of each row of a batch. */
export interface Settlement {
  readonly sent: readonly ClaimedRow[];
  readonly retried: readonly (RetriedRow & Named)[];
  readonly dead: readonly (DeadRow & Named)[];
  readonly deferred: readonly (Failure & Named)[];
  readonly released: readonly ClaimedRow[];
}

interface Named {
  readonly row: ClaimedRow;
}

/** Why a row is dead that failed for nothing that is known any more. */
const EXHAUSTED = 'max_retries_exceeded';
/** Why a row is dead whose error, of somebody's own broker, has no code. */
const UNNAMED = 'ERR_CELERY_OUTBOX_MESSAGE_REFUSED';
/** Enough for any reason; an error may quote a whole message. */
const MAX_ERROR_LENGTH = 2_000;

interface Triage {
  readonly alive: readonly ClaimedRow[];
  readonly dead: Settlement['dead'];
  /** Behind a dead one of the same ordering key: whether they may go on is decided with the next claim. */
  readonly held: readonly ClaimedRow[];
}

/** Takes the rows that have failed too often before this batch out of it: the limit was lowered meanwhile. */
export function withoutExhausted(rows: readonly ClaimedRow[], retries: Retries): Triage {
  const dead = rows.filter((row) => row.retries > 0 && retries.isExhausted(row.taskName, row.retries));
  if (dead.length === 0) return { alive: rows, dead: [], held: [] };
  const keys = new Set(dead.map(({ orderingKey }) => orderingKey).filter((key) => key !== null));
  const isHeld = (row: ClaimedRow): boolean => row.orderingKey !== null && keys.has(row.orderingKey);
  const others = rows.filter((row) => !dead.includes(row));
  return {
    alive: others.filter((row) => !isHeld(row)),
    held: others.filter(isHeld),
    dead: dead.map((row) => ({
      row,
      id: row.id,
      reason: EXHAUSTED,
      error: `failed ${String(row.retries)} times, which is more than the limit allows`,
      retries: row.retries,
    })),
  };
}

/** Failures are tried again or buried; an outage costs no retry. */
export function settlementOf(
  { delivered, unstarted, dead }: Delivery & Pick<Triage, 'dead'>,
  retries: Retries,
): Settlement {
  const settlement = {
    sent: [] as ClaimedRow[],
    retried: [] as (RetriedRow & Named)[],
    dead: [...dead],
    deferred: [] as (Failure & Named)[],
    released: unstarted,
  };
  for (const { row, outcome } of delivered) {
    if (outcome.status === 'published') settlement.sent.push(row);
    else if (outcome.status === 'outage') settlement.deferred.push(failureOf(row, outcome.error));
    else fail(settlement, { row, outcome }, retries);
  }
  return settlement;
}

function fail(
  { retried, dead }: { retried: (RetriedRow & Named)[]; dead: (DeadRow & Named)[] },
  { row, outcome }: Delivered,
  retries: Retries,
): void {
  if (outcome.status === 'published') return;
  const failures = row.retries + 1;
  const delayMs = retries.delayAfter(row.taskName, failures);
  const failure = failureOf(row, outcome.error);
  if (delayMs !== null) retried.push({ ...failure, delayMs });
  else dead.push({ ...failure, reason: reasonOf(outcome.error), retries: failures });
}

// Errors come from somebody's own broker too, so nothing of them is sure.
function failureOf(row: ClaimedRow, error: unknown): Failure & Named {
  const message = (error as Partial<Error> | null | undefined)?.message as unknown;
  return { row, id: row.id, error: storable(typeof message === 'string' ? message : inspect(error)) };
}

function reasonOf(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' && code !== '' ? storable(code) : UNNAMED;
}

// PostgreSQL's text cannot hold NUL.
function storable(text: string): string {
  return text.slice(0, MAX_ERROR_LENGTH).replaceAll('\0', '\u{FFFD}');
}
