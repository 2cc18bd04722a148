import type { Knex } from 'knex';
import type { TableNames } from './table-names';

interface KeyedTask {
  readonly resultId: string;
  readonly taskName: string;
  readonly idempotencyKey: string | null;
}
interface KeyRow {
  task_name: string;
  key: string;
  task_id: string;
}

// Waits for another open transaction with the same key, and takes the key over if that one rolls back or if
// the key is older than the window. Sorted, so that two calls with the same keys do not deadlock. Keys known to
// be in use are left out: ON CONFLICT would lock their rows, and repeated requests would queue up behind each other.
const reserveStatement = (names: TableNames): string => `
  INSERT INTO ${names.idempotency} AS held (task_name, key, task_id)
  SELECT task_name, key, task_id FROM unnest(?::text[], ?::text[], ?::text[]) AS wanted (task_name, key, task_id)
  WHERE NOT EXISTS (
    SELECT FROM ${names.idempotency} AS used
    WHERE used.task_name = wanted.task_name AND used.key = wanted.key
      AND used.created_at + ? * interval '1 millisecond' > statement_timestamp())
  ORDER BY task_name, key
  ON CONFLICT (task_name, key) DO UPDATE SET task_id = excluded.task_id, created_at = excluded.created_at
  WHERE held.created_at + ? * interval '1 millisecond' <= statement_timestamp()
  RETURNING task_name, key, task_id`;

// A statement of its own: in READ COMMITTED it sees what the transaction that we waited for has committed.
const holderStatement = (names: TableNames): string => `
  SELECT task_name, key, task_id FROM ${names.idempotency}
  WHERE (task_name, key) IN (SELECT * FROM unnest(?::text[], ?::text[]))`;

// A key that was there when we reserved can be purged before we read it; then it is ours to reserve again.
const ATTEMPTS = 3;

/**
 * Reserves the idempotency keys of the tasks that have one.
 *
 * @returns for the index of each task that must not be stored, the id of the task that holds its key.
 */
export async function reserveKeys(
  trx: Knex.Transaction,
  names: TableNames,
  tasks: readonly KeyedTask[],
  windowMs: number,
): Promise<Map<number, string>> {
  const firstOfKey = new Map<string, KeyedTask>();
  for (const task of tasks) {
    const identity = identityOf(task.taskName, task.idempotencyKey);
    if (task.idempotencyKey !== null && !firstOfKey.has(identity)) firstOfKey.set(identity, task);
  }
  const { reserved, holders } = await findHolders(trx, names, firstOfKey, windowMs);
  const firstIds = new Map<number, string>();
  tasks.forEach((task, index) => {
    const identity = identityOf(task.taskName, task.idempotencyKey);
    const holder = holders.get(identity);
    const isOurs = reserved.has(identity) && firstOfKey.get(identity) === task;
    if (holder !== undefined && !isOurs) firstIds.set(index, holder);
  });
  return firstIds;
}

interface Holders {
  /** Keys that this call has taken. */
  readonly reserved: Set<string>;
  /** Task id by key, whoever holds it. */
  readonly holders: Map<string, string>;
}

async function findHolders(
  trx: Knex.Transaction,
  names: TableNames,
  wanted: ReadonlyMap<string, KeyedTask>,
  windowMs: number,
): Promise<Holders> {
  const reserved = new Set<string>();
  const holders = new Map<string, string>();
  for (let attempt = 1; holders.size < wanted.size; attempt += 1) {
    if (attempt > ATTEMPTS)
      throw new Error('an idempotency key was purged again and again while it was read');
    const missing = [...wanted].filter(([identity]) => !holders.has(identity)).map(([, task]) => task);
    const taskNames = missing.map((task) => task.taskName);
    const keys = missing.map((task) => task.idempotencyKey);
    const taken = await keyRows(trx, reserveStatement(names), [
      taskNames,
      keys,
      missing.map((task) => task.resultId),
      windowMs,
      windowMs,
    ]);
    for (const [identity, taskId] of taken) {
      reserved.add(identity);
      holders.set(identity, taskId);
    }
    if (holders.size === wanted.size) break;
    for (const [identity, taskId] of await keyRows(trx, holderStatement(names), [taskNames, keys])) {
      holders.set(identity, taskId);
    }
  }
  return { reserved, holders };
}

async function keyRows(
  trx: Knex.Transaction,
  statement: string,
  bindings: readonly (readonly (string | null)[] | number)[],
): Promise<[identity: string, taskId: string][]> {
  const { rows } = await trx.raw<{ rows: KeyRow[] }>(statement, bindings as Knex.RawBinding[]);
  return rows.map((row) => [identityOf(row.task_name, row.key), row.task_id]);
}

// Neither part can hold a NUL: PostgreSQL's text cannot.
const identityOf = (taskName: string, key: string | null): string => `${taskName}\0${key ?? ''}`;
