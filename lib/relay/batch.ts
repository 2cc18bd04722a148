import type { ClaimedRow } from '../store/relay/claim';
import type { Lease } from './lease';
import type { Publish, RowOutcome } from './outcome';
import { Turns } from './turns';

export interface Delivered {
  readonly row: ClaimedRow;
  readonly outcome: RowOutcome;
}

export interface Delivery {
  readonly delivered: readonly Delivered[];
  /** Never handed over. */
  readonly unstarted: readonly ClaimedRow[];
}

/**
 * Hands the rows of a batch over, those of one ordering key one after another, as long as they are ours and nobody
 * wants us to stop.
 *
 * @param mayGoOn - asked before each turn
 */
export async function deliver(
  rows: readonly ClaimedRow[],
  publish: Publish,
  lease: Pick<Lease, 'remainingMs'>,
  mayGoOn: () => boolean,
): Promise<Delivery> {
  const turns = new Turns(rows);
  const delivered: Delivered[] = [];
  const unstarted: ClaimedRow[] = [];
  // A row that is handed over after its lease has ended may be somebody else's.
  while (lease.remainingMs > 0 && mayGoOn()) {
    const turn = turns.next();
    if (turn.length === 0) break;
    const outcomes = await publish(turn);
    let hasOutage = false;
    for (const [index, row] of turn.entries()) {
      const outcome = outcomes[index] as RowOutcome;
      delivered.push({ row, outcome });
      if (outcome.status !== 'published') unstarted.push(...turns.hold(row));
      hasOutage ||= outcome.status === 'outage';
    }
    if (hasOutage) break;
  }
  return { delivered, unstarted: [...unstarted, ...turns.rest()] };
}
