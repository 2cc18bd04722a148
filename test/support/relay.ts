import { createRelay, type Relay, type RelayOptions } from '../../lib/relay';
import { createDatabase, type TestDatabase } from './database';
import { type LogLine, recordingLogger } from './log';
import { ScriptedBroker } from './scripted-broker';

/** What the tests of a suite work with: one database for all of them, emptied, and a new broker for each. */
export interface RelayBundle {
  db: TestDatabase;
  broker: ScriptedBroker;
  /** A relay to that broker, stopped after the test. */
  relay(options?: Partial<RelayOptions>): Relay;
  /** The lines that all relays of the test have logged so far for one event. */
  logged(event: string): LogLine[];
}

export function useRelay(): RelayBundle {
  const bundle = {} as RelayBundle;
  let relays: Relay[] = [];
  before(async () => {
    bundle.db = await createDatabase({ min: 0, max: 20 });
  });
  beforeEach(async () => {
    await bundle.db.empty();
    const logger = recordingLogger();
    const broker = new ScriptedBroker();
    bundle.broker = broker;
    bundle.logged = (event) => logger.lines.filter((line) => line.message === event);
    bundle.relay = (options) => {
      const relay = createRelay({
        knex: bundle.db.knex,
        celery: { broker: () => broker },
        logger,
        ...options,
      });
      relays.push(relay);
      return relay;
    };
  });
  afterEach(async () => {
    await Promise.all(relays.map((relay) => relay.stop()));
    relays = [];
  });
  after(async () => {
    await bundle.db.close();
  });
  return bundle;
}
