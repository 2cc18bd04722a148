import { wakeUpChannel } from '../notify';
import type { TableNames } from '../table-names';
import { type Database, runStatement } from './statement';

/** Tells all relays of the outbox to look for something to do. @throws ERR_CELERY_OUTBOX_DATABASE */
export async function wakeRelays(database: Database, names: TableNames): Promise<void> {
  await runStatement(database, "SELECT pg_notify(?, '')", [wakeUpChannel(names)]);
}
