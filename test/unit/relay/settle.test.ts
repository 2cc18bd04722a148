import { expect } from 'chai';
import type { RelayStore } from '../../../lib/relay/relay-store';
import { settle, type Settled } from '../../../lib/relay/settle';
import { row } from './row';

const refusal = (code: string): Error =>
  new Error('failed', { cause: Object.assign(new Error(code), { code, severity: 'ERROR' }) });
const outage = new Error('failed', { cause: new Error('no answer') });

describe('settle', () => {
  /** Settles two rows that were sent, while the database fails so. */
  async function run(
    failures: readonly Error[],
    { remainingMs = 1_000, abandoned = new AbortController().signal } = {},
  ): Promise<{ settled: Settled; asked: number[] }> {
    const left = [...failures];
    const asked: number[] = [];
    const complete: RelayStore['complete'] = ({ ids }) => {
      asked.push(ids.length);
      const error = left.shift();
      return error === undefined ? Promise.resolve(new Set(ids)) : Promise.reject(error);
    };
    const settlement = { sent: [row('1'), row('2')], retried: [], dead: [], deferred: [], released: [] };
    const settled = await settle('token', settlement, {
      store: { complete } as unknown as RelayStore,
      lease: { remainingMs },
      onError: () => undefined,
      onAttempt: () => undefined,
      abandoned,
    });
    return { settled, asked };
  }

  it('goes on for as long as the database does not answer, or refuses what will pass', async () => {
    const { settled, asked } = await run([outage, outage, refusal('40P01'), refusal('25006'), outage], {
      remainingMs: 0,
    });
    expect(asked).to.deep.equal([2, 2, 2, 2, 2, 2]);
    expect(settled.lost).to.equal(0);
  });

  it('tries what is refused three times as a whole, then each row once', async () => {
    const { settled, asked } = await run(Array<Error>(4).fill(refusal('23505')));
    expect(asked).to.deep.equal([2, 2, 2, 1, 1]);
    expect(settled.written.sent.map(({ id }) => id)).to.deep.equal(['2']);
    expect(settled.lost).to.equal(1);
  });

  it('gives up after that', async () => {
    const { settled, asked } = await run(Array<Error>(9).fill(refusal('42501')));
    expect(asked).to.deep.equal([2, 2, 2, 1, 1]);
    expect(settled.lost).to.equal(2);
  });

  it('waits for nothing when the lease is over', async () => {
    const { asked } = await run(Array<Error>(9).fill(refusal('42501')), { remainingMs: 0 });
    expect(asked).to.deep.equal([2, 1, 1]);
  });

  it('ends when nobody waits for it any more', async () => {
    const { settled, asked } = await run([outage], { abandoned: AbortSignal.abort() });
    expect(asked).to.deep.equal([2]);
    expect(settled.lost).to.equal(2);
  });
});
