import { expect } from 'chai';
import { chain } from '../../../lib/message/chain';
import { encodeCanvas } from '../../../lib/message/encode-canvas';
import { encodeTask, type EncodeSettings, type UnencodedTask } from '../../../lib/message/encode-task';
import { group } from '../../../lib/message/group';
import { signature } from '../../../lib/message/signature';
import { refusal } from '../../support/refusal';

const settings: EncodeSettings = {
  maxPayloadBytes: 1000,
  now: new Date('2031-05-06T07:08:09.123Z'),
  newId: () => 'new',
};
const encode = (
  call: Partial<UnencodedTask>,
  more: Partial<EncodeSettings> = {},
): ReturnType<typeof encodeTask> => encodeTask({ name: 't', ...call }, { ...settings, ...more });

describe('encodeTask', () => {
  it('fills every column', () => {
    const options = {
      taskId: 'id',
      countdown: 1,
      orderingKey: 'o',
      idempotencyKey: 'i',
      holdUntil: '2031-06-01',
    };
    expect(
      encode({ name: 'orders.process', args: [1, 2n ** 64n], kwargs: { a: '\0' }, options }),
    ).to.deep.equal({
      taskId: 'id',
      taskName: 'orders.process',
      args: '[1,18446744073709551616]',
      kwargs: '{"a":"\\u0000"}',
      options: '{"eta":"2031-05-06T07:08:10.123000+00:00"}',
      redactedArgs: null,
      redactedKwargs: null,
      orderingKey: 'o',
      idempotencyKey: 'i',
      holdUntil: '2031-06-01T00:00:00.000000+00:00',
    });
  });

  it('needs no more than a name', () => {
    expect(encode({})).to.include({
      taskId: 'new',
      args: '[]',
      kwargs: '{}',
      options: '{}',
      orderingKey: null,
    });
    expect(encode({}, { newId: undefined }).taskId).to.match(/^[0-9a-f]{8}-/);
  });

  it('refuses a name that cannot be stored or sent', () => {
    for (const name of ['', 'x'.repeat(256), 'a\0b', 'a\ud800', undefined, null, 42, {}]) {
      const error = refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => encode({ name: name as string }));
      expect(error.message).to.match(/^The task name must be /);
    }
  });

  it('refuses args that are no array and kwargs that are no object', () => {
    for (const args of [null, 'abc', 5, {}, new Set(), Object.assign([], { toJSON: () => 'x' })]) {
      const error = refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => encode({ args }));
      expect(error.message).to.match(/^args must be an array, got /);
    }
    for (const kwargs of [
      null,
      [],
      'abc',
      new Map(),
      new URL('http://a.b'),
      new Date(),
      { toJSON: () => [] },
    ]) {
      const error = refusal('ERR_CELERY_OUTBOX_INVALID_TASK', () => encode({ kwargs }));
      expect(error.message).to.match(/^kwargs must be a plain object, got /);
    }
    const tagged = { __type__: 'x', __value__: 1 };
    expect(refusal('ERR_CELERY_OUTBOX_UNENCODABLE', () => encode({ kwargs: tagged })).message).to.match(
      /^kwargs /,
    );
  });

  it('counts bytes, not characters, up to the limit', () => {
    const exact = 1000 - '[""]{}{}'.length;
    const tooLarge = (text: string): string =>
      refusal('ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE', () => encode({ name: 'big.task', args: [text] }))
        .message;
    expect(encode({ args: ['x'.repeat(exact)] }).args).to.have.length(994 + 2);
    expect(tooLarge('x'.repeat(exact + 1))).to.match(
      /^Task big\.task has .*1001 bytes .*maxPayloadBytes is 1000$/,
    );
    expect(encode({ args: ['é'.repeat(exact / 2)] }).args).to.have.length(4 + exact / 2);
    expect(tooLarge('é'.repeat(exact / 2 + 1))).to.match(/1002 bytes/);
    refusal('ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE', () =>
      encode({ options: { headers: { h: 'x'.repeat(1000) } } }),
    );
  });
});

describe('redaction', () => {
  it('gets a copy and decides what is shown, not what is sent', () => {
    const args = [{ card: '4111' }];
    const encoded = encode(
      { args, kwargs: { secret: 's' } },
      {
        redact: (task) => {
          expect(task).to.deep.equal({ name: 't', args: [{ card: '4111' }], kwargs: { secret: 's' } });
          Object.assign(task.args[0] as object, { card: '***' });
          return { args: task.args, kwargs: null };
        },
      },
    );
    expect(encoded).to.include({
      args: '[{"card":"4111"}]',
      kwargs: '{"secret":"s"}',
      redactedArgs: '[{"card":"***"}]',
      redactedKwargs: 'null',
    });
    expect(args).to.deep.equal([{ card: '4111' }]);
  });

  const failures: Record<string, () => unknown> = {
    throws: () => {
      throw new Error('redact failed');
    },
    'returns nothing': () => undefined,
    'returns a promise': () => Promise.resolve({ args: [], kwargs: {} }),
    'returns garbage': () => 'x',
    'leaves one out': () => ({ args: [] }),
    'returns what is not JSON': () => ({ args: [], kwargs: { m: new Map() } }),
  };
  for (const [name, redact] of Object.entries(failures)) {
    it(`shows nothing if it ${name}`, () => {
      const errors: unknown[] = [];
      const more = { redact: redact as never, onRedactError: (error: unknown) => errors.push(error) };
      expect(encode({ args: [1] }, more)).to.include({
        args: '[1]',
        redactedArgs: '"[redaction failed]"',
        redactedKwargs: '"[redaction failed]"',
      });
      expect(errors).to.have.length(1);
    });
  }

  it('survives a reporter that throws, and none at all', () => {
    const redact = failures['throws'] as never;
    const onRedactError = (): never => {
      throw new Error('logger failed');
    };
    expect(encode({}, { redact, onRedactError }).redactedArgs).to.equal('"[redaction failed]"');
    expect(encode({}, { redact }).redactedArgs).to.equal('"[redaction failed]"');
  });
});

describe('encodeCanvas', () => {
  const [a, b] = [signature('a', [1]), signature('b', [2n ** 64n])];

  it('gives every row the ordering key and the hold time', () => {
    const { tasks, result } = encodeCanvas(
      group([a, b]),
      { orderingKey: 'o', holdUntil: settings.now, taskId: 'g' },
      settings,
    );
    expect(tasks).to.have.length(2);
    for (const task of tasks) {
      expect(task).to.include({
        orderingKey: 'o',
        idempotencyKey: null,
        holdUntil: '2031-05-06T07:08:09.123000+00:00',
      });
    }
    expect(tasks[1]).to.include({
      taskName: 'b',
      args: '[18446744073709551616]',
      options: '{"group_id":"g"}',
    });
    expect(result.groupId).to.equal('g');
  });

  it('takes an idempotency key for one message only', () => {
    expect(encodeCanvas(chain(a, b), { idempotencyKey: 'i' }, settings).tasks[0]).to.include({
      idempotencyKey: 'i',
    });
    for (const canvas of [group([a, b]), group([])]) {
      refusal('ERR_CELERY_OUTBOX_INVALID_OPTION', () =>
        encodeCanvas(canvas, { idempotencyKey: 'i' }, settings),
      );
    }
  });

  it('limits each message and redacts its arguments', () => {
    const large = chain(a, signature('b', ['x'.repeat(1000)]));
    refusal('ERR_CELERY_OUTBOX_PAYLOAD_TOO_LARGE', () => encodeCanvas(large, undefined, settings));
    const redact = (): { args: unknown; kwargs: unknown } => ({ args: '*', kwargs: '*' });
    expect(encodeCanvas(a, undefined, { ...settings, redact }).tasks[0]).to.include({ redactedArgs: '"*"' });
  });
});
