import { expect } from 'chai';
import { createOutbox, type SendOptions } from '../../lib';
import { recordingLogger } from '../support/log';
import { useOutbox } from '../support/outbox';
import { rejection } from '../support/rejection';

const cycle: Record<string, unknown> = {};
cycle['self'] = { again: cycle };

describe('hostile values', () => {
  const bundle = useOutbox();

  describe('are refused by path or option, and the transaction goes on', () => {
    const unencodable: [string, unknown, RegExp][] = [
      ['a Map', new Map([[1, 2]]), /^args\[1\]\.deep\[0\] .*Map.*Object\.fromEntries/],
      ['a Set', new Set([1]), /^args\[1\]\.deep\[0\] .*Set/],
      ['a function', () => 1, /^args\[1\]\.deep\[0\] .*function/],
      ['a symbol', Symbol('s'), /^args\[1\]\.deep\[0\] .*symbol/],
      ['a cycle', cycle, /^args\[1\]\.deep\[0\]\.self\.again .*contains itself/],
      ['NaN', NaN, /^args\[1\]\.deep\[0\] .*NaN/],
      ['an infinity', -Infinity, /^args\[1\]\.deep\[0\] .*Infinity/],
      ['an invalid Date', new Date('x'), /^args\[1\]\.deep\[0\] .*invalid Date/],
      ['a Buffer', Buffer.from('x'), /^args\[1\]\.deep\[0\] .*binary.*base64/],
      ['undefined in an array', undefined, /^args\[1\]\.deep\[0\] .*undefined/],
      ['a promise', Promise.resolve(1), /^args\[1\]\.deep\[0\] .*await it/],
    ];
    for (const [what, value, message] of unencodable) {
      it(what, async () => {
        await refusedInside('ERR_CELERY_OUTBOX_UNENCODABLE', message, ['t', [0, { deep: [value] }]]);
        await refusedInside(
          'ERR_CELERY_OUTBOX_UNENCODABLE',
          /^kwargs\.k /,
          ['t', [], { k: [value] }],
          /^kwargs\.k/,
        );
      });
    }

    const others: [string, string, RegExp, unknown[]][] = [
      ['a lone surrogate in a name', 'INVALID_TASK', /task name .*surrogate/, ['t\ud800']],
      ['NUL in a name', 'INVALID_TASK', /task name .*NUL/, ['t\0']],
      [
        'a lone surrogate in orderingKey',
        'INVALID_OPTION',
        /orderingKey .*surrogate/,
        withOptions({ orderingKey: '\udc00' }),
      ],
      ['NUL in orderingKey', 'INVALID_OPTION', /orderingKey .*NUL/, withOptions({ orderingKey: 'a\0b' })],
      [
        'NUL in idempotencyKey',
        'INVALID_OPTION',
        /idempotencyKey .*NUL/,
        withOptions({ idempotencyKey: '\0' }),
      ],
      ['NUL in taskId', 'INVALID_OPTION', /taskId .*NUL/, withOptions({ taskId: '\0' })],
      [
        'an orderingKey of 1025 bytes',
        'INVALID_OPTION',
        /orderingKey .*1024/,
        withOptions({ orderingKey: 'k'.repeat(1025) }),
      ],
      ['a number as queue', 'INVALID_OPTION', /queue .*number 42/, withOptions({ queue: 42 })],
      [
        'an unknown option',
        'UNKNOWN_OPTION',
        /"count_down".*did you mean countdown/,
        withOptions({ count_down: 1 }),
      ],
      ['an invalid eta', 'INVALID_OPTION', /eta .*ISO 8601/, withOptions({ eta: 'tomorrow' })],
      [
        'an unencodable header',
        'UNENCODABLE',
        /headers\.x .*Map/,
        withOptions({ headers: { x: new Map() } }),
      ],
      ['null as an option', 'INVALID_OPTION', /queue .*null/, withOptions({ queue: null })],
      [
        '5 MB',
        'PAYLOAD_TOO_LARGE',
        /\b50000\d\d bytes.*maxPayloadBytes is 1048576/,
        ['t', ['x'.repeat(5_000_000)]],
      ],
    ];
    for (const [what, code, message, call] of others) {
      it(what, () => refusedInside(`ERR_CELERY_OUTBOX_${code}`, message, call));
    }

    function withOptions(options: unknown): unknown[] {
      return ['t', [], {}, options];
    }

    async function refusedInside(
      code: string,
      message: RegExp,
      call: unknown[],
      only?: RegExp,
    ): Promise<void> {
      const { outbox, db } = bundle;
      const sendTask = outbox.celery.sendTask.bind(outbox.celery) as (...args: unknown[]) => Promise<unknown>;
      await outbox.transaction(async (trx) => {
        await trx('orders').insert({ note: null });
        const error = await rejection(code as never, sendTask(...call));
        expect(error.message).to.match(only ?? message);
        expect(error.message.length).to.be.below(400);
        await sendTask('after');
      });
      expect((await db.rows()).map((row) => row.task_name))
        .to.include('after')
        .and.not.include('t');
      await db.empty();
    }
  });

  describe('survive as they are:', () => {
    const texts: [string, unknown[], string][] = [
      ['a lone surrogate', ['a\ud800b'], String.raw`["a\ud800b"]`],
      ['NUL', ['a\0b'], String.raw`["a\u0000b"]`],
      [
        'integers beyond 2^63 and 2^64',
        [2n ** 63n, -(2n ** 63n) - 1n, 2n ** 64n + 1n],
        '[9223372036854775808,-9223372036854775809,18446744073709551617]',
      ],
      ['a number of 300 digits', [10n ** 299n + 7n], `[1${'0'.repeat(298)}7]`],
      ['the text of numbers', [1e21, 1e-7, 0.1, -0, 1.0], '[1e+21,1e-7,0.1,-0.0,1]'],
      ['Dates', [new Date('2026-01-02T03:04:05.678Z')], '["2026-01-02T03:04:05.678Z"]'],
      [
        'what looks like a PostgreSQL array',
        ['{NULL}', 'NULL', '"', '\\', ',', '{}'],
        String.raw`["{NULL}","NULL","\"","\\",",","{}"]`,
      ],
      ['every plane of Unicode', ['é ü 漢 😀 \u2028 \uFEFF'], '["é ü 漢 😀 \u2028 \uFEFF"]'],
      ['whitespace and control characters', ['\t\n\r\b\f\u001f'], String.raw`["\t\n\r\b\f\u001f"]`],
      ['what looks like bindings', ['? ?? $1 :name'], '["? ?? $1 :name"]'],
    ];
    for (const [what, args, text] of texts) {
      it(what, async () => {
        await bundle.outbox.transaction(() => bundle.outbox.celery.sendTask('t', args));
        expect((await bundle.db.rows())[0]?.args).to.equal(text);
      });
    }

    it('the order of keys, also of those that occur in other objects', async () => {
      const kwargs = { z: 1, a: { y: 2, b: 3 }, m: [{ q: 1, c: 2 }] };
      await bundle.outbox.transaction(() => bundle.outbox.celery.sendTask('t', [], kwargs));
      expect((await bundle.db.rows())[0]?.kwargs).to.equal('{"z":1,"a":{"y":2,"b":3},"m":[{"q":1,"c":2}]}');
    });

    it('5 MB, with a larger maxPayloadBytes', async () => {
      const outbox = createOutbox({
        knex: bundle.db.knex,
        logger: recordingLogger(),
        maxPayloadBytes: 10_000_000,
      });
      const big = 'é"\\\0'.repeat(625_000);
      await outbox.transaction(() => outbox.celery.sendTask('t', [big]));
      const [row] = await bundle.db.rows();
      expect(Buffer.byteLength(row!.args)).to.be.above(5_000_000);
      expect((JSON.parse(row!.args) as string[])[0] === big).to.equal(true);
    });

    it('names and keys with quotes, percent signs and emoji', async () => {
      const options: SendOptions = {
        orderingKey: `o'"\\%😀`,
        idempotencyKey: `i'"\\%😀`,
        taskId: `t'"\\%😀`,
      };
      await bundle.outbox.transaction(() => bundle.outbox.celery.sendTask(`n'"\\%😀`, [], {}, options));
      expect((await bundle.db.rows())[0]).to.include({
        task_name: `n'"\\%😀`,
        ordering_key: options.orderingKey,
        task_id: options.taskId,
      });
    });
  });
});
