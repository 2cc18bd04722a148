import { expect } from 'chai';
import { Retries, type RetryPolicy } from '../../../lib/relay/retry-policy';
import { recordingLogger } from '../../support/log';

const DEFAULTS = { maxRetries: 3, backoffMs: 1_000, maxBackoffMs: 3_000 };

describe('Retries', () => {
  it('waits twice as long after each failure, up to the limit, then gives up', () => {
    const retries = new Retries(DEFAULTS, undefined, recordingLogger());
    for (let times = 0; times < 100; times += 1) {
      expect(retries.delayAfter('t', 1)).to.be.within(1_000, 1_100);
      expect(retries.delayAfter('t', 2)).to.be.within(2_000, 2_200);
      expect(retries.delayAfter('t', 3)).to.be.within(2_700, 3_000);
    }
    expect(retries.delayAfter('t', 4)).to.equal(null);
    expect(retries.isExhausted('t', 3)).to.equal(false);
    expect(retries.isExhausted('t', 4)).to.equal(true);
  });

  it('does not overflow, however often a task has failed', () => {
    const retries = new Retries({ ...DEFAULTS, maxRetries: 32_766 }, undefined, recordingLogger());
    expect(retries.delayAfter('t', 30_000)).to.be.within(2_700, 3_000);
  });

  it('spreads what waits for the longest time too', () => {
    const retries = new Retries(DEFAULTS, undefined, recordingLogger());
    const delays = Array.from({ length: 100 }, () => retries.delayAfter('t', 3));
    expect(new Set(delays).size).to.be.above(1);
  });

  it('does not wait with a back-off of 0, however often a task has failed', () => {
    const policy = () => ({ maxRetries: 32_766, backoffMs: 0 });
    const retries = new Retries(DEFAULTS, policy, recordingLogger());
    for (const failures of [1, 100, 2_000, 32_766]) expect(retries.delayAfter('t', failures)).to.equal(0);
  });

  it('takes from the policy what it gives, and the defaults for the rest', () => {
    const retries = new Retries(
      DEFAULTS,
      (name) => (name === 'a' ? { maxRetries: 0 } : undefined),
      recordingLogger(),
    );
    expect(retries.delayAfter('a', 1)).to.equal(null);
    expect(retries.delayAfter('b', 1)).to.be.within(1_000, 1_100);
  });

  it('uses the defaults where the policy fails, and says so', () => {
    for (const policy of [
      () => {
        throw new Error('broken');
      },
      () => ({ maxRetries: 1.5 }),
      () => ({ backoffMs: '5' as unknown as number }),
      () => ({ maxRetries: 32_767 }),
      (() => Promise.resolve({ maxRetries: 0 })) as unknown as () => RetryPolicy,
    ]) {
      const logger = recordingLogger();
      expect(new Retries(DEFAULTS, policy, logger).delayAfter('t', 1)).to.be.within(1_000, 1_100);
      expect(logger.lines.map(({ message }) => message)).to.deep.equal(['celery_outbox_retry_policy_failed']);
    }
  });

  it('survives a policy that rejects', async () => {
    const logger = recordingLogger();
    const policy = (() => Promise.reject(new Error('broken'))) as unknown as () => RetryPolicy;
    expect(new Retries(DEFAULTS, policy, logger).delayAfter('t', 1)).to.be.within(1_000, 1_100);
    await new Promise((resolve) => setImmediate(resolve));
    expect(logger.lines.map(({ message }) => message)).to.deep.equal([
      'celery_outbox_retry_policy_failed',
      'celery_outbox_retry_policy_failed',
    ]);
  });
});
