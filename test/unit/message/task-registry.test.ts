import { expect } from 'chai';
import type { TaskArgs, TaskKwargs, TaskName, TaskParameters } from '../../../lib/message/task-registry';

declare module '../../../lib/message/task-registry' {
  interface TaskRegistry {
    'registry.optional': (orderId: number, kw?: { notify: boolean }) => void;
    'registry.required': (orderId: number, note: string | null, kw: RequiredKwargs) => void;
    'registry.positional': (at: Date, ids: number[], note?: string) => void;
    'registry.none': () => void;
    'registry.rest': (...ids: number[]) => void;
    'registry.kwargsOnly': (kw: { to: string }) => void;
  }
}

interface RequiredKwargs {
  scale: number;
}

/** Compiles only if each type is assignable to the other. */
type Same<A, B> = [A, B] extends [B, A] ? true : false;
const same = <A, B>(_: Same<A, B>): void => undefined;

const send = <N extends TaskName>(_name: N, ..._rest: TaskParameters<N, { queue?: string }>): string => _name;

describe('TaskRegistry', () => {
  it('splits declared parameters into args and kwargs', () => {
    same<TaskArgs<'registry.optional'>, readonly [number]>(true);
    same<TaskKwargs<'registry.optional'>, Readonly<{ notify: boolean }> | undefined>(true);
    same<TaskArgs<'registry.required'>, readonly [number, string | null]>(true);
    same<TaskKwargs<'registry.required'>, Readonly<RequiredKwargs>>(true);
    same<TaskArgs<'registry.positional'>, readonly [at: Date, ids: number[], note?: string | undefined]>(
      true,
    );
    same<TaskArgs<'registry.rest'>, readonly number[]>(true);
    same<TaskArgs<'registry.kwargsOnly'>, readonly []>(true);
    same<TaskArgs<'unregistered'>, readonly unknown[]>(true);
    same<TaskKwargs<'unregistered'>, Readonly<Record<string, unknown>> | undefined>(true);
    same<TaskArgs<string>, readonly unknown[]>(true);
  });

  it('checks calls of registered tasks and leaves others alone', () => {
    const args = [7] as const;
    expect(send('registry.optional', args, { notify: true }, { queue: 'q' })).to.be.a('string');
    send('registry.optional', [7]);
    send('registry.required', [7, null], { scale: 1 });
    send('registry.positional', [new Date(), [1]]);
    send('registry.none');
    send('registry.rest', [1, 2, 3]);
    send('registry.kwargsOnly', [], { to: 'ops' });
    send('unregistered', [1, 'x', {}], { any: 'thing' }, {});
    send('unregistered');
    send(['computed'].join(), [1]);

    // @ts-expect-error -- args are missing
    send('registry.optional');
    // @ts-expect-error -- a string is no order id
    send('registry.optional', ['7']);
    // @ts-expect-error -- too many arguments
    send('registry.optional', [7, 8]);
    // @ts-expect-error -- a wrong keyword argument
    send('registry.optional', [7], { notify: 'yes' });
    // @ts-expect-error -- kwargs are required
    send('registry.required', [7, 'note']);
    // @ts-expect-error -- there are no kwargs
    send('registry.none', [], { x: 1 });
    // @ts-expect-error -- a wrong option
    send('registry.none', [], {}, { queue: 7 });
  });
});
