import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { Watchdog } from '../../../../lib/broker/redis/watchdog';

describe('Watchdog', () => {
  let clock: SinonFakeTimers;
  let silences: number;
  let watchdog: Watchdog;

  beforeEach(() => {
    clock = useFakeTimers();
    silences = 0;
    watchdog = new Watchdog(100, () => {
      silences += 1;
    });
  });
  afterEach(() => {
    clock.restore();
  });

  it('calls out when an answer does not come', () => {
    watchdog.expect();
    clock.tick(99);
    expect(silences).to.equal(0);
    clock.tick(2);
    expect(silences).to.equal(1);
  });

  it('gives each its turn', () => {
    watchdog.expect();
    watchdog.expect();
    clock.tick(90);
    watchdog.answered();
    clock.tick(90);
    expect(silences).to.equal(0);
    clock.tick(20);
    expect(silences).to.equal(1);
  });

  it('is quiet, and has no timer, when all is answered or when it is stopped', () => {
    watchdog.expect();
    watchdog.answered();
    expect(clock.countTimers()).to.equal(0);
    watchdog.expect();
    watchdog.stop();
    expect(clock.countTimers()).to.equal(0);
    clock.tick(1000);
    expect(silences).to.equal(0);
  });

  it('reads first what came while the process stood still', () => {
    watchdog.expect();
    watchdog.expect();
    // The timer is late and runs first; the answer is read before the next turn of the loop.
    clock.setTimeout(() => {
      watchdog.answered();
    }, 100);
    clock.tick(100);
    clock.tick(50);
    expect(silences).to.equal(0);
    clock.tick(100);
    expect(silences, 'it goes on watching').to.equal(1);
  });
});
