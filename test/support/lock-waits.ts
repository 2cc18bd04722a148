import { expect } from 'chai';
import type { Knex } from 'knex';
import { eventually } from './eventually';

/** Resolves when exactly this many connections of the database wait for a lock. */
export async function untilWaiting(knex: Knex, count: number): Promise<void> {
  await eventually(async () => {
    const waiting = await knex('pg_stat_activity')
      .where({ wait_event_type: 'Lock' })
      .whereRaw('datname = current_database()')
      .pluck('pid');
    expect(waiting, 'connections that wait for a lock').to.have.length(count);
  });
}
