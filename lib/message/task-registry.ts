/**
 * The tasks you know, for checking names, args and kwargs at compile time. Merge into it:
 *
 * ```ts
 * declare module 'express-celery-outbox' {
 *   interface TaskRegistry {
 *     'orders.process': (orderId: number, kw?: { notify: boolean }) => void;
 *   }
 * }
 * ```
 *
 * The last parameter is kwargs if its type is an object (no array, Date, Map, Set or function); it may be optional.
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- users merge into it
export interface TaskRegistry {}

/** Registered names are suggested; any other string stays possible. */
export type TaskName = Extract<keyof TaskRegistry, string> | (string & Record<never, never>);

/** Positional arguments of a task: of a registered one as declared, otherwise anything. */
export type TaskArgs<Name extends string> = [Declared<Name>] extends [never]
  ? readonly unknown[]
  : Readonly<HasKwargs<Declared<Name>> extends true ? WithoutLast<Declared<Name>> : Declared<Name>>;

/** Keyword arguments of a task; with `undefined` if they may be left out. */
export type TaskKwargs<Name extends string> = [Declared<Name>] extends [never]
  ? Readonly<Record<string, unknown>> | undefined
  : HasKwargs<Declared<Name>> extends true
    ? Readonly<Last<Declared<Name>>> | (IsLastOptional<Declared<Name>> extends true ? undefined : never)
    : Readonly<Record<string, never>> | undefined;

/**
 * The parameters after the name of `sendTask(name, args?, kwargs?, options?)`: args and kwargs can be left out where
 * the task needs none.
 */
export type TaskParameters<Name extends string, Options> =
  undefined extends TaskKwargs<Name>
    ? readonly [] extends TaskArgs<Name>
      ? [args?: TaskArgs<Name>, kwargs?: TaskKwargs<Name>, options?: Options]
      : [args: TaskArgs<Name>, kwargs?: TaskKwargs<Name>, options?: Options]
    : [args: TaskArgs<Name>, kwargs: TaskKwargs<Name>, options?: Options];

type Declared<Name> = Name extends keyof TaskRegistry
  ? TaskRegistry[Name] extends (...parameters: infer P) => unknown
    ? P
    : never
  : never;

type NotKwargs =
  | readonly unknown[]
  | Date
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | ((...parameters: never[]) => unknown);

type IsKwargs<T> = unknown extends T
  ? false
  : [T] extends [never]
    ? false
    : [T] extends [NotKwargs]
      ? false
      : [T] extends [object]
        ? true
        : false;

/** A task with a rest parameter has no last one. */
type HasKwargs<P extends readonly unknown[]> = number extends P['length'] ? false : IsKwargs<Last<P>>;

type Last<P extends readonly unknown[]> =
  Required<P> extends readonly [...unknown[], infer L] ? NonNullable<L> : never;

type IsLastOptional<P extends readonly unknown[]> = P extends readonly [...unknown[], infer L]
  ? undefined extends L
    ? true
    : false
  : true;

type WithoutLast<P extends readonly unknown[]> = number extends P['length']
  ? P
  : P extends readonly [infer Head, ...infer Rest]
    ? Rest extends readonly []
      ? []
      : [Head, ...WithoutLast<Rest>]
    : P extends readonly [(infer Head)?, ...infer Rest]
      ? Rest extends readonly []
        ? []
        : [Head?, ...WithoutLast<Rest>]
      : [];
