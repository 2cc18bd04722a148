import { expect } from 'chai';
import { type SinonFakeTimers, useFakeTimers } from 'sinon';
import { Backoff } from '../../../lib/broker/backoff';

describe('Backoff', () => {
  let clock: SinonFakeTimers;

  beforeEach(() => {
    clock = useFakeTimers();
  });
  afterEach(() => {
    clock.restore();
  });

  /** How long it lasts after the next failure. */
  function lasts(backoff: Backoff): number {
    backoff.failed();
    let ms = 0;
    for (; !backoff.isOver; ms += 1) clock.tick(1);
    return ms;
  }

  it('is over before anything has failed', () => {
    expect(new Backoff().isOver).to.equal(true);
  });

  it('doubles from 100 ms to 5 s, each time up to half shorter', () => {
    const backoff = new Backoff();
    for (const most of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      expect(lasts(backoff)).to.be.within(most / 2, most);
    }
  });

  it('differs from one to the next', () => {
    expect(new Set(Array.from({ length: 20 }, () => lasts(new Backoff()))))
      .to.have.property('size')
      .above(1);
  });

  it('begins anew after a success', () => {
    const backoff = new Backoff();
    for (let failure = 0; failure < 5; failure += 1) backoff.failed();
    backoff.succeeded();
    expect(backoff.isOver).to.equal(true);
    expect(lasts(backoff)).to.be.at.most(100);
  });
});
