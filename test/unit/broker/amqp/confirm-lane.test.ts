import { EventEmitter } from 'node:events';
import type { ConfirmChannel } from 'amqplib';
import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { ConfirmLane } from '../../../../lib/broker/amqp/confirm-lane';
import type { LaneOutcome } from '../../../../lib/broker/amqp/lane-outcome';
import { toParcel } from '../../../../lib/broker/amqp/parcel';
import { createMessage } from './message';

const SEND_TIMEOUT_MS = 1000;

/** One whose buffer is full after every message until it drains. */
class FullChannel extends EventEmitter {
  readonly #unconfirmed: ((error: null) => void)[] = [];

  publish(_exchange: string, _key: string, _body: Buffer, _options: object, confirm: () => void): boolean {
    this.#unconfirmed.push(confirm);
    return false;
  }
  confirmAll(): void {
    for (const confirm of this.#unconfirmed.splice(0)) confirm(null);
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
}

describe('a lane whose channel takes no more for now', () => {
  let clock: SinonFakeTimers;
  let channel: FullChannel;
  let lane: ConfirmLane;
  let stalls: number;
  /** Outcomes in the order they came in. */
  let statuses: string[];
  beforeEach(() => {
    clock = useFakeTimers();
    channel = new FullChannel();
    [stalls, statuses] = [0, []];
    lane = new ConfirmLane(channel as unknown as ConfirmChannel, {
      sendTimeoutMs: SEND_TIMEOUT_MS,
      onReturn: () => undefined,
      onStall: () => (stalls += 1),
    });
  });
  afterEach(() => {
    clock.restore();
  });

  function publish(): void {
    const keep = (outcomes: LaneOutcome[]): unknown => statuses.push(...outcomes.map(({ status }) => status));
    void lane.publish([toParcel(createMessage(), null)]).then(keep);
  }

  it('gives a message its whole time, also when the time of one before is just over', async () => {
    publish();
    channel.confirmAll();
    await clock.tickAsync(SEND_TIMEOUT_MS - 5);
    publish();
    await clock.tickAsync(SEND_TIMEOUT_MS - 5);
    expect([statuses, stalls]).to.deep.equal([['published'], 0]);
    channel.emit('drain');
    channel.confirmAll();
    await clock.tickAsync(0);
    expect([statuses, stalls, lane.isOpen]).to.deep.equal([['published', 'published'], 0, true]);
  });

  it('gives up what has waited for its whole time', async () => {
    publish();
    channel.confirmAll();
    await clock.tickAsync(SEND_TIMEOUT_MS - 5);
    publish();
    await clock.tickAsync(SEND_TIMEOUT_MS + 1);
    expect([statuses, stalls]).to.deep.equal([['published', 'outage'], 1]);
  });

  it('gives up what waits behind messages that are not acknowledged, in the same moment', async () => {
    publish();
    await clock.tickAsync(SEND_TIMEOUT_MS / 2);
    publish();
    await clock.tickAsync(SEND_TIMEOUT_MS / 2);
    expect([statuses, stalls, lane.isOpen]).to.deep.equal([['outage', 'outage'], 1, false]);
  });

  it('counts the time of what waits from the last acknowledgement', async () => {
    publish();
    publish();
    await clock.tickAsync(SEND_TIMEOUT_MS / 2);
    channel.confirmAll();
    await clock.tickAsync(SEND_TIMEOUT_MS - 1);
    expect([statuses, stalls]).to.deep.equal([['published'], 0]);
    await clock.tickAsync(1);
    expect([statuses, stalls]).to.deep.equal([['published', 'outage'], 1]);
  });
});
