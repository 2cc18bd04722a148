import { expect } from 'chai';
import type { Interop } from '../interop';

const TEXTS = [
  '',
  'quotes " \' ` and \\ backslashes \\n',
  'controls \u0000 \u001f \u007f \r\n\t \u2028',
  'Grüße, 日本語, שלום, e\u0301',
  'emoji 🎉 👩‍👩‍👧 𝄞',
  '</script> ${x} %s {0}',
];

export function argumentCases(interop: Interop): void {
  it('by position', async () => {
    expect(await interop.run('interop.add', [1, 2])).to.equal(3);
  });

  it('by name', async () => {
    expect(await interop.run('interop.add', [1], { y: 2.5 })).to.equal(3.5);
  });

  it('or none', async () => {
    expect(await interop.run('interop.echo')).to.deep.equal({ args: [], kwargs: {} });
  });

  it('of every JSON type, nested', async () => {
    const args = [null, true, false, 0, -1, 1.5, 1e300, [], {}, [[{ a: [1, { b: null }] }]]];
    const kwargs = { nested: { list: args }, '': 1, 'a b': 2 };
    expect(await interop.run('interop.echo', args, kwargs)).to.deep.equal({ args, kwargs });
  });

  it('with any character', async () => {
    const kwargs = Object.fromEntries(TEXTS.map((text) => [text, text]));
    expect(await interop.run('interop.echo', TEXTS, kwargs)).to.deep.equal({ args: TEXTS, kwargs });
    expect(await interop.run('interop.spell', ['a\u0000é🎉'])).to.equal("(('a\\x00é🎉',), {})");
  });

  it('that are integers of any size', async () => {
    const args = [2n ** 63n, 2n ** 70n, -(2n ** 63n) - 1n, -(2n ** 70n), 2n ** 53n + 1n];
    const spelled = await interop.run('interop.spell', args, { n: 2n ** 64n });
    expect(spelled).to.equal(`((${args.join(', ')}), {'n': 18446744073709551616})`);
  });

  it('that are instants, as text', async () => {
    const date = new Date(Date.UTC(2031, 4, 6, 7, 8, 9, 123));
    expect(await interop.run('interop.spell', [date])).to.equal("(('2031-05-06T07:08:09.123Z',), {})");
  });

  it('of a megabyte', async () => {
    const text = 'x'.repeat(1_000_000);
    expect(await interop.run('interop.measure', [`${text}é`])).to.deep.equal([1_000_001, 'é']);
  });

  for (const compression of ['zlib', 'gzip'] as const) {
    it(`compressed (${compression})`, async () => {
      const text = `${'é'.repeat(100_000)}🎉`;
      const measured = await interop.run('interop.measure', [text], {}, { compression });
      expect(measured).to.deep.equal([100_001, '🎉']);
    });
  }

  it('of each task of a large batch', async () => {
    const key = `${interop.names.queue}-batch`;
    const numbers = Array.from({ length: 300 }, (_, index) => index);
    await interop.sender.send(numbers.map((number) => ({ name: 'interop.note', args: [key, number] })));
    const noted = (await interop.results.notes(key, numbers.length)) as number[];
    expect(noted.toSorted((a, b) => a - b)).to.deep.equal(numbers);
  });
}
