import { expect } from 'chai';
import { taskRepr } from '../../../lib/message/task-repr';

describe('taskRepr', () => {
  it('shows up to 1024 characters as they are', () => {
    for (const json of ['[]', '{"a":"é😀"}', 'x'.repeat(1024)]) expect(taskRepr(json)).to.equal(json);
  });

  it('cuts what is longer', () => {
    expect(taskRepr('x'.repeat(1025))).to.equal(`${'x'.repeat(1021)}...`);
    expect(taskRepr('x'.repeat(1_000_000))).to.have.length(1024);
  });

  it('never cuts a pair of surrogates in two', () => {
    for (const before of [1018, 1019, 1020, 1021, 1022]) {
      const shown = taskRepr('x'.repeat(before) + '😀'.repeat(600));
      expect(shown, String(before)).not.to.match(/\p{Surrogate}/u);
      expect(shown)
        .to.match(/\.\.\.$/)
        .and.have.length.within(1023, 1024);
    }
    expect(taskRepr(`${'x'.repeat(1020)}😀${'y'.repeat(9)}`)).to.equal(`${'x'.repeat(1020)}...`);
    expect(taskRepr(`${'x'.repeat(1019)}😀${'y'.repeat(9)}`)).to.equal(`${'x'.repeat(1019)}😀...`);
  });
});
