import { createOutbox, type Outbox, type OutboxOptions } from '../../lib';
import { createDatabase, type TestDatabase } from './database';
import { recordingLogger, type LogLine } from './log';

/** What the tests of a suite work with: one database for all of them, emptied, and a new outbox for each. */
export interface OutboxBundle {
  db: TestDatabase;
  outbox: Outbox;
  /** The lines logged so far for one event. */
  logged(event: string): LogLine[];
}

export function useOutbox(options: () => Partial<OutboxOptions> = () => ({})): OutboxBundle {
  const bundle = {} as OutboxBundle;
  before(async () => {
    bundle.db = await createDatabase({ min: 0, max: 25 });
  });
  beforeEach(async () => {
    await bundle.db.empty();
    const logger = recordingLogger();
    bundle.logged = (event) => logger.lines.filter((line) => line.message === event);
    bundle.outbox = createOutbox({ knex: bundle.db.knex, logger, ...options() });
  });
  afterEach(async () => {
    await bundle.outbox.close();
  });
  after(async () => {
    await bundle.db.close();
  });
  return bundle;
}
