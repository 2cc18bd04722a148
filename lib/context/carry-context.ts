import type { AsyncLocalStorage } from 'node:async_hooks';

type Carried = readonly (readonly [AsyncLocalStorage<unknown>, store: unknown])[];

/**
 * Takes our context to where it gets lost: callbacks that come from outside, as the events of a request do from
 * the HTTP parser. Only our own storages are entered, and only where the first of them is empty: what others have
 * put there stays.
 */
export function carryContext(
  marker: AsyncLocalStorage<unknown>,
  ...others: readonly AsyncLocalStorage<unknown>[]
): <T>(fn: () => T) => T {
  const carried: Carried = [marker, ...others].map((storage) => [storage, storage.getStore()]);
  return (fn) => (marker.getStore() === undefined ? enter(carried, fn) : fn());
}

function enter<T>([first, ...rest]: Carried, fn: () => T): T {
  return first === undefined ? fn() : first[0].run(first[1], () => enter(rest, fn));
}
