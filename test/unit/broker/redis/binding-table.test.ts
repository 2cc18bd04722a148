import { expect } from 'chai';
import { BindingTable, topicPattern } from '../../../../lib/broker/redis/binding-table';

const SEP = '\x06\x16';
const topic = (key: string, queue: string): string => [key, topicPattern(key), queue].join(SEP);
const direct = (key: string, queue: string): string => [key, '', queue].join(SEP);

describe('BindingTable', () => {
  const queues = (members: string[], key: string): string[] =>
    [...new BindingTable(members, SEP).queuesFor(key)].sort();

  it('finds queues of a direct exchange by their key', () => {
    const members = [direct('a', 'q1'), direct('a', 'q2'), direct('b', 'q3'), direct('.', 'q4')];
    expect(queues(members, 'a')).to.deep.equal(['q1', 'q2']);
    expect(queues(members, 'A')).to.deep.equal([]);
    expect(queues(members, '')).to.deep.equal([]);
  });

  it('finds queues of a topic exchange by their pattern, each once', () => {
    const members = [topic('feed.#', 'all'), topic('*.rss', 'rss'), topic('feed.*', 'all'), topic('x', 'x')];
    expect(queues(members, 'feed.rss')).to.deep.equal(['all', 'rss']);
    expect(queues(members, 'feed.a.b')).to.deep.equal(['all']);
    expect(queues(members, 'feedx')).to.deep.equal([]);
    expect(queues(members, 'xx')).to.deep.equal([]);
  });

  it('takes a word of a binding for what it is, not for a regular expression', () => {
    expect(queues([topic('a+b_c-d.(x', 'q')], 'a+b_c-d.(x')).to.deep.equal(['q']);
    expect(queues([topic('a+b', 'q')], 'aab')).to.deep.equal([]);
    expect(queues([topic('größe.*', 'q')], 'größe.1')).to.deep.equal(['q']);
  });

  it('passes over members that it cannot read', () => {
    const broken = ['nonsense', '', `k${SEP}`, `k${SEP}(?P<x>k)${SEP}python`, `k${SEP}${SEP}`];
    expect(queues([...broken, direct('k', 'q')], 'k')).to.deep.equal(['q']);
  });

  it('knows a binding that was added after it was asked', () => {
    const table = new BindingTable([], SEP);
    expect(table.queuesFor('k')).to.deep.equal([]);
    table.add(direct('k', 'q'));
    expect(table.has(direct('k', 'q'))).to.equal(true);
    expect(table.queuesFor('k')).to.deep.equal(['q']);
  });

  it('knows another separator', () => {
    expect(new BindingTable(['k::q'], ':').queuesFor('k')).to.deep.equal(['q']);
  });
});

describe('topicPattern', () => {
  // As Python's kombu 5.2.4 answers: TopicExchange(None).key_to_pattern(key).
  const cases: [string, string][] = [
    ['feed.#', String.raw`^feed\..*?$`],
    ['*.*.rss', String.raw`^.*?[^\.]\..*?[^\.]\.rss$`],
    ['a_b-c.é', String.raw`^a\_b\-c\.é$`],
    ['a#.b*', String.raw`^a#\.b*$`],
    ['', '^$'],
  ];
  for (const [key, pattern] of cases) {
    it(JSON.stringify(key), () => {
      expect(topicPattern(key)).to.equal(pattern);
    });
  }
});
