import { expect } from 'chai';
import { type SinonStub, stub } from 'sinon';
import { Tenure } from '../../../../lib/relay/leadership/tenure';

describe('the tenure of a leader', () => {
  let clock: SinonStub<[], number>;

  beforeEach(() => {
    clock = stub(performance, 'now').returns(1_000);
  });
  afterEach(() => {
    clock.restore();
  });

  it('has nothing before the first election', () => {
    expect(new Tenure().partitions).to.deep.equal([]);
    expect(new Tenure().endsAt).to.equal(undefined);
  });

  it('tells what an election brought and took', () => {
    const tenure = new Tenure();
    expect(tenure.begin([0, 1], 2_000)).to.deep.equal({ acquired: [0, 1], lost: [] });
    expect(tenure.begin([1, 2], 3_000)).to.deep.equal({ acquired: [2], lost: [0] });
    expect(tenure.begin([1, 2], 4_000)).to.deep.equal({ acquired: [], lost: [] });
    expect(tenure.partitions).to.deep.equal([1, 2]);
  });

  it('ends in time, and goes on as if it had not when the next election gives the same', () => {
    const tenure = new Tenure();
    tenure.begin([0], 2_000);
    clock.returns(2_000);
    expect(tenure.partitions).to.deep.equal([0]);
    clock.returns(2_000.1);
    expect(tenure.partitions).to.deep.equal([]);
    expect(tenure.begin([0], 3_000)).to.deep.equal({ acquired: [], lost: [] });
    expect(tenure.partitions).to.deep.equal([0]);
  });
});
