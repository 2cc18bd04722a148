import type { Knex } from 'knex';

// Advisory locks are one space for the whole database: the seed keeps ours apart from others that hash too.
const SEED = 7_034_531_198;

// Sorted and distinct: two calls with the same keys in another order must not wait for each other. Two keys
// with the same hash only wait needlessly.
const LOCK_KEYS = `
  SELECT pg_advisory_xact_lock(hash)
  FROM (SELECT DISTINCT hashtextextended(key, ${String(SEED)}) AS hash FROM unnest(?::text[]) AS key ORDER BY hash) AS hashes`;

/** Waits until no other open transaction holds one of the ordering keys; holds them until this one ends. */
export async function lockOrderingKeys(
  trx: Knex.Transaction,
  tasks: readonly { orderingKey: string | null }[],
): Promise<void> {
  const keys = tasks.map((task) => task.orderingKey).filter((key) => key !== null);
  if (keys.length > 0) await trx.raw(LOCK_KEYS, [keys]);
}
