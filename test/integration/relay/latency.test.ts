import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'chai';
import createKnex, { type Knex } from 'knex';
import { createOutbox, type Outbox } from '../../../lib';
import type { Relay, RelayOptions } from '../../../lib/relay';
import { useAdmin } from '../../support/amqp-admin';
import { eventually } from '../../support/eventually';
import { recordingLogger } from '../../support/log';
import { createRandom } from '../../support/random';
import { useRelay } from '../../support/relay';
import { service } from '../../support/services';
import { createWiredProxy, type WiredProxy } from '../../support/wired-proxy';
import { Arrivals } from './fixtures/traffic';

const IDLE_MS = 200;
/** For a machine that does other things as well. */
const MARGIN_MS = 150;
/** No limit of the writer, nor of the relay, is met by one task after such a pause. */
const QUIET_MS = 20;

describe('the time from a commit to the broker', function () {
  this.timeout(40_000);
  const bundle = useRelay();
  const bench = useAdmin();
  const random = createRandom(4);
  let redis: string;
  let queue: string;
  let arrivals: Arrivals;
  let outbox: Outbox | undefined;

  before(async () => {
    redis = (await service('redis')).url;
  });
  beforeEach(async () => {
    queue = await bench.admin.queue();
    arrivals = await Arrivals.watch(bench.admin, queue);
  });
  afterEach(async () => {
    await outbox?.close();
  });

  async function start(options: Partial<RelayOptions>): Promise<Relay> {
    const relay = bundle.relay({
      celery: { broker: bench.url, queue },
      name: `outbox-${randomUUID()}`,
      ...options,
    });
    await relay.start();
    return relay;
  }
  /** Sends one task after another. @returns the times from just before each COMMIT to the arrival, sorted */
  async function measure(count: number, notify: boolean, pauseMs: () => number): Promise<number[]> {
    const { lines: _, ...logger } = recordingLogger();
    const writer = createOutbox({ knex: bundle.db.knex, logger, notify });
    outbox = writer;
    const times: number[] = [];
    for (let sent = -1; sent < count; sent += 1) {
      await pause(pauseMs());
      let committedAt = 0;
      const { taskId } = await writer.transaction(async () => {
        const result = await writer.celery.sendTask('tests.noop', [sent]);
        committedAt = performance.now();
        return result;
      });
      await arrivals.include([taskId]);
      // The first one opens the connections.
      if (sent >= 0) times.push(arrivals.at(taskId)! - committedAt);
    }
    return times.sort((a, b) => a - b);
  }
  const medianOf = (sorted: readonly number[]): number => sorted[Math.floor(sorted.length / 2)]!;

  for (const [what, options] of [
    ['with Bull', () => ({ redis })],
    ['without Redis', () => ({})],
  ] as const) {
    it(`is a few milliseconds on an idle system, ${what}`, async () => {
      const relay = await start({ ...options(), idleMs: 10_000 });
      expect(relay.status().isListening).to.equal(true);
      const times = await measure(100, true, () => QUIET_MS);
      expect(medianOf(times)).to.be.below(20);
    });

    it(`is below one idle time when nobody is notified, ${what}`, async () => {
      const relay = await start({ ...options(), idleMs: IDLE_MS, notify: false });
      expect(relay.status().isListening).to.equal(false);
      const times = await measure(20, false, () => random() * IDLE_MS);
      expect(medianOf(times)).to.be.below(IDLE_MS);
      expect(times.at(-1)).to.be.below(IDLE_MS + MARGIN_MS);
    });
  }
});

describe('an idle relay', function () {
  this.timeout(40_000);
  const WINDOW_MS = 3_000;
  const bundle = useRelay();
  const opened: { knex: Knex; proxy: WiredProxy }[] = [];

  /** A way to the database that counts the statements that take it. */
  async function counted(): Promise<{ knex: Knex; statements: () => number }> {
    let count = 0;
    const proxy = await createWiredProxy(bundle.db.url, (client, server) => {
      onStatement(client, () => (count += 1));
      client.pipe(server).pipe(client);
    });
    const knex = createKnex({ client: 'pg', connection: proxy.url, pool: { min: 0, max: 5 } });
    opened.push({ knex, proxy });
    return { knex, statements: () => count };
  }
  after(async () => {
    for (const { knex, proxy } of opened) {
      await knex.destroy();
      await proxy.close();
    }
  });

  it('costs two statements a second at most, whether it leads, follows or has no Redis', async () => {
    const { url } = await service('redis');
    const name = `outbox-${randomUUID()}`;
    const relays: { relay: Relay; statements: () => number }[] = [];
    for (const redis of [url, url, undefined]) {
      const { knex, statements } = await counted();
      const relay = bundle.relay({ knex, name, ...(redis !== undefined && { redis }) });
      await relay.start();
      relays.push({ relay, statements });
    }
    expect(relays.map(({ relay }) => relay.status().mode)).to.deep.equal([
      'leading',
      'following',
      'unlocked',
    ]);
    // What it does once, at the start, is over when its first passes are.
    await eventually(() => {
      expect(relays[0]!.statements()).to.be.above(4);
      expect(relays[2]!.statements()).to.be.above(4);
    });
    const before = relays.map(({ statements }) => statements());
    await pause(WINDOW_MS);
    const counts = relays.map(({ statements }, index) => statements() - before[index]!);
    for (const count of counts) expect(count).to.be.at.most((2 * WINDOW_MS) / 1000);
    expect(counts[1]).to.equal(0);
    expect(counts[2]).to.be.above(0);
  });
});

/** Tells of each statement that a client of PostgreSQL sends: a Query, or a Parse. */
function onStatement(client: Socket, tell: () => void): void {
  let waiting = Buffer.alloc(0);
  let isStarted = false;
  client.on('data', (chunk: Buffer) => {
    waiting = Buffer.concat([waiting, chunk]);
    for (;;) {
      // The first message has no type.
      const head = isStarted ? 1 : 0;
      if (waiting.length < head + 4) return;
      const length = head + waiting.readInt32BE(head);
      if (waiting.length < length) return;
      if (isStarted && 'QP'.includes(String.fromCharCode(waiting[0]!))) tell();
      isStarted = true;
      waiting = waiting.subarray(length);
    }
  });
}
