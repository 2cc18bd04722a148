import { eventually } from './eventually';
import type { TestDatabase } from './database';

const LOCK = 4711;

/** While it is held, the COMMIT of any transaction that inserted an order waits. */
export interface HeldCommit {
  /** Resolves once `count` transactions wait in their COMMIT. */
  pending(count?: number): Promise<void>;
  release(): Promise<void>;
}

/** Prepares a database for `holdCommit`. */
export async function makeCommitHoldable(db: TestDatabase): Promise<void> {
  await db.knex.raw(`
    CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock_shared(${LOCK}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER wait_in_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION wait_in_commit()`);
}

export async function holdCommit(db: TestDatabase): Promise<HeldCommit> {
  const holder = await db.knex.transaction();
  await holder.raw('SELECT pg_advisory_xact_lock(?)', [LOCK]);
  return {
    pending: (count = 1) =>
      eventually(async () => {
        const waiting = await holder('pg_locks')
          .join('pg_database', 'pg_database.oid', 'pg_locks.database')
          .whereRaw("locktype = 'advisory' AND NOT granted AND datname = current_database()");
        if (waiting.length < count)
          throw new Error(`${waiting.length} of ${count} transactions wait in COMMIT`);
      }),
    async release() {
      if (!holder.isCompleted()) await holder.commit();
    },
  };
}
