import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import type { Relay } from '../../../lib/relay';
import { eventually } from '../../support/eventually';
import { useRelay } from '../../support/relay';
import { service } from '../../support/services';

/** Elections are held in each third of it: what happens sooner does not happen by itself. */
const LOCK_TTL_MS = 60_000;

describe('a leader that stops', () => {
  const bundle = useRelay();
  let leader: Relay;
  let follower: Relay;
  beforeEach(async () => {
    const redis = (await service('redis')).url;
    const name = `outbox-${randomUUID()}`;
    [leader, follower] = Array.from({ length: 2 }, () =>
      bundle.relay({ redis, name, lockTtlMs: LOCK_TTL_MS, idleMs: 10_000 }),
    ) as [Relay, Relay];
    await leader.start();
    await follower.start();
    expect(follower.status()).to.include({ mode: 'following', isListening: true });
  });

  async function handsOver(): Promise<void> {
    const stopped = leader.stop();
    await eventually(() => {
      expect(follower.status().mode).to.equal('leading');
    }, 2_000);
    await stopped;
  }

  it('hands over at once', async () => {
    await handsOver();
  });

  it('hands over at once also when the follower was woken just before', async () => {
    // Each wakes all relays.
    for (let time = 0; time < 10; time += 1) await leader.resume();
    await handsOver();
  });

  it('leaves a follower that can stop while it waits for its next election', async () => {
    for (let time = 0; time < 10; time += 1) await leader.resume();
    await follower.stop();
    expect(follower.status().mode).to.equal('stopped');
  });
});
