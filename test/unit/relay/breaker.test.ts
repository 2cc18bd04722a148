import { expect } from 'chai';
import { Breaker } from '../../../lib/relay/breaker';

describe('Breaker', () => {
  let now = 0;
  const open = (): Breaker => new Breaker(1_000, () => now);
  beforeEach(() => {
    now = 0;
  });

  it('opens with the second outage in a row, for the cooldown', () => {
    const breaker = open();
    expect(breaker.outage()).to.equal(false);
    expect(breaker.isOpen).to.equal(false);
    expect(breaker.outage()).to.equal(true);
    expect(breaker).to.include({ isOpen: true, remainingMs: 1_000 });
    now = 999;
    expect(breaker.isOpen).to.equal(true);
    now = 1_000;
    expect(breaker).to.include({ isOpen: false, remainingMs: 0, isProbing: true });
  });

  it('counts only outages without a success between them', () => {
    const breaker = open();
    breaker.outage();
    expect(breaker.success()).to.equal(false);
    expect(breaker.outage()).to.equal(false);
    expect(breaker.isOpen).to.equal(false);
  });

  it('opens again with the first outage after the cooldown, and closes with the first success', () => {
    const breaker = open();
    breaker.outage();
    breaker.outage();
    now = 1_500;
    expect(breaker.outage()).to.equal(true);
    expect(breaker.remainingMs).to.equal(1_000);
    now = 3_000;
    expect(breaker.success()).to.equal(true);
    expect(breaker).to.include({ isOpen: false, isProbing: false });
    expect(breaker.outage()).to.equal(false);
  });

  it('stays open no longer for outages that come in while it is', () => {
    const breaker = open();
    breaker.outage();
    breaker.outage();
    now = 900;
    expect(breaker.outage()).to.equal(false);
    expect(breaker.remainingMs).to.equal(100);
  });
});
