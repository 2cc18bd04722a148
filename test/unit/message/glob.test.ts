import { expect } from 'chai';
import { globPattern } from '../../../lib/message/glob';

describe('globPattern', () => {
  // Each checked with Python's fnmatch.
  const globs: [glob: string, matching: string[], others: string[]][] = [
    [
      'proj.video.*',
      ['proj.video.cut', 'proj.video.', 'proj.video.a.b'],
      ['proj.video', 'xproj.video.a', 'proj-video.a'],
    ],
    ['*', ['', 'a', 'a.b\nc'], []],
    ['*.rss', ['feed.rss', '.rss'], ['feed.rss2', 'rss']],
    ['a*c', ['ac', 'abc', 'a.c'], ['abcd', 'xabc']],
    ['*.?', ['t.1', 't.?', 't.é', 't.😀'], ['t.', '.12']],
    ['*.[a-c]', ['t.a', 't.b', 't.c'], ['t.d', 't.A', 't.[a-c]', 't.ab']],
    ['*.[!x]', ['t.a', 't.!'], ['t.x', 't.']],
    ['t.[!a-c]*', ['t.d', 't.dabc'], ['t.a', 't.b1']],
    ['t.[^a]*', ['t.^', 't.ab'], ['t.b']],
    ['t.[\\d]*', ['t.\\', 't.dx'], ['t.5']],
    ['t.[a*', ['t.[a', 't.[ab'], ['t.a']],
    ['t.[]a]*', ['t.]', 't.a'], ['t.[]a]', 't.[']],
    ['t.[!]a]*', ['t.b', 't.!'], ['t.]', 't.a']],
    ['t.[!]*', ['t.[!]', 't.[!]a'], ['t.a']],
    ['t.[]*', ['t.[]'], ['t.]']],
    ['t.[a-]*', ['t.a', 't.-'], ['t.b']],
    ['t.[--0]*', ['t.-', 't..', 't.0'], ['t.1']],
    ['t.[a-c-e]*', ['t.b', 't.-', 't.e'], ['t.d']],
    ['t.[[]*', ['t.['], ['t.]']],
    ['t.(a|b)+*', ['t.(a|b)+', 't.(a|b)+c'], ['t.a', 't.aa']],
    ['$a{1}*', ['$a{1}'], ['a']],
    ['t.[z-a]*', [], ['t.m', 't.z', 't.[z-a]']],
    ['t.[z-ab]*', ['t.b'], ['t.a', 't.z']],
    ['t.[!z-a]*', ['t.a', 't.m'], ['t.']],
  ];
  for (const [glob, matching, others] of globs) {
    it(glob, () => {
      for (const task of matching) expect(globPattern(glob).test(task), task).to.equal(true);
      for (const task of others) expect(globPattern(glob).test(task), task).to.equal(false);
    });
  }
});
