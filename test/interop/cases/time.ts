import { expect } from 'chai';
import { chain, signature, type TaskOptions } from '../../../lib';
import type { Interop } from '../interop';
import { add } from './signatures';

/** By the clock of a task, in milliseconds: when it ran, and when its worker thinks that it was to run. */
interface Clock {
  readonly ran: number;
  readonly eta: number | null;
}

export function timeCases(interop: Interop): void {
  const clockOf = (options: TaskOptions): Promise<Clock> =>
    interop.run('interop.clock', [], {}, options).then(inMilliseconds);

  it('that is not to start before its eta or countdown', async () => {
    // Celery 5.2 takes three digits of a fraction for microseconds: .900 would be nearly a second too early.
    const eta = new Date(Math.ceil(Date.now() / 1000) * 1000 + 900);
    const offset = new Date(eta.getTime() + 9 * 3_600_000).toISOString().replace('Z', '+09:00');
    const counted = Date.now() + 500;
    const clock = signature('interop.clock').immutable();
    const [ofDate, ofText, ofCountdown, ofStep, ofPast] = await Promise.all([
      clockOf({ eta }),
      clockOf({ eta: offset }),
      clockOf({ countdown: 0.5 }),
      interop.apply(chain(add(1, 2), clock.set({ eta }))).then(inMilliseconds),
      clockOf({ eta: new Date(Date.now() - 3_600_000) }),
    ]);
    expect(Date.now(), 'by the clock of the test').to.be.at.least(eta.getTime());
    for (const { ran, eta: taken } of [ofDate, ofText, ofStep]) {
      expect(ran).to.be.at.least(eta.getTime());
      // Workers are up to two seconds late, which would hide an eta that is too early.
      expect(taken).to.equal(eta.getTime());
    }
    expect(ofCountdown.ran).to.be.at.least(counted);
    expect(ofCountdown.eta).to.be.within(counted, counted + 1000);
    expect(ofPast.ran).to.be.a('number');
  });

  it('that expires later', async () => {
    const expires = new Date(Date.now() + 600_000);
    const seen = await interop.run('interop.inspect', [], {}, { expires });
    const { expires: header, properties } = seen as { expires: string; properties: { expiration: string } };
    expect(Date.parse(header)).to.equal(expires.getTime());
    expect(Number(properties.expiration)).to.be.within(500_000, 600_000);
    const { ran } = await clockOf({ expires: 11 * 365 * 86_400 });
    expect(ran, 'although RabbitMQ cannot count that far').to.be.a('number');
  });

  it('with limits, of which it is told at the soft one and killed at the hard one', async () => {
    const slow = { name: 'interop.slow', args: [60] };
    const [told, killed] = await interop.sender.send([
      { ...slow, options: { softTimeLimit: 0.3, timeLimit: 300 } },
      { ...slow, options: { timeLimit: 0.5 } },
    ]);
    expect(await interop.results.result(told!)).to.equal('soft limit');
    const { status, result } = await interop.results.outcome(killed!);
    expect(status).to.equal('FAILURE');
    expect(result).to.include({ exc_type: 'TimeLimitExceeded' });
  });
}

function inMilliseconds(clock: unknown): Clock {
  const { ran, eta } = clock as Clock;
  return { ran: 1000 * ran, eta: eta === null ? null : Math.round(1000 * eta) };
}
