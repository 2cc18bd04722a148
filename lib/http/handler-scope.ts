import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Who is calling: the handler of a request, or the error handling after it. Both have the same `res`, but once the
 * handler's answer is discarded only the error handling may answer.
 */
const handlers = new AsyncLocalStorage<object | undefined>();

/** Runs the handler of a request, whose answer is behind `gate`. */
export function runAsHandler<T>(gate: object, fn: () => T): T {
  return handlers.run(gate, fn);
}

/** Runs what is not the handler any more. */
export function runAsErrorHandling<T>(fn: () => T): T {
  return handlers.run(undefined, fn);
}

export function isHandlerOf(gate: object): boolean {
  return handlers.getStore() === gate;
}

/** The storage, for those who carry contexts across event emitters. */
export { handlers as handlerStorage };
