import { expect } from 'chai';
import { chain, chord, group, type Canvas } from '../../../lib';
import type { Interop } from '../interop';
import { add, echo, multiply, tsum } from './signatures';

const CASES: readonly (readonly [name: string, canvas: () => Canvas, result: unknown])[] = [
  ['a group inside a chain', () => chain(add(1, 1), group([add(1), add(2)]), tsum()), 7],
  ['a group that starts a chain', () => chain(group([add(1, 1), add(2, 2)]), tsum(), add(10)), 16],
  [
    'two groups inside a chain',
    () => chain(add(1, 1), group([add(1), add(2)]), tsum(), group([add(1), multiply(2)]), tsum()),
    22,
  ],
  ['two groups in a row', () => chain(group([add(1, 1), add(2, 2)]), group([tsum(), tsum()]), tsum()), 12],
  [
    'a chord inside a chain inside a group',
    () => group([chain(add(1, 1), chord([add(1), add(2)], tsum()), multiply(10)), add(5, 5)]),
    [70, 10],
  ],
  [
    'a chord in the header of a chord',
    () => chord([chord([add(1, 1), add(2, 2)], tsum()), add(3, 3)], tsum()),
    12,
  ],
  [
    'a chord in the header of a chord in the header of a chord',
    () => chord([chord([chord([add(1, 1)], tsum()), add(2, 2)], tsum()), chain(add(1, 1), add(1))], echo()),
    { args: [[6, 3]], kwargs: {} },
  ],
  [
    'a chord as the body of a chord',
    () => chord([add(1, 1), add(2, 2)], chord([tsum(), chain(tsum(), add(1))], tsum())),
    13,
  ],
  [
    'a chain with a group in the header of a chord',
    () => chord([chain(add(1, 1), group([add(1), add(2)]), tsum()), add(3, 3)], echo()),
    { args: [[7, 6]], kwargs: {} },
  ],
  [
    'a chord that follows a chord',
    () => chain(chord([add(1, 1), add(2, 2)], tsum()), chord([add(1), add(2)], tsum()), add(1)),
    16,
  ],
];

export function nestedCases(interop: Interop): void {
  for (const [name, canvas, result] of CASES) {
    it(name, async () => {
      expect(await interop.apply(canvas())).to.deep.equal(result);
    });
  }
}
