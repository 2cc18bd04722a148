import { AsyncLocalStorage } from 'node:async_hooks';

/** Fields that go with every log line, with every task, and on to the worker's logs. */
export type LogContext = Readonly<Record<string, unknown>>;

/** @internal */
export const logStorage = new AsyncLocalStorage<LogContext>();
const EMPTY: LogContext = Object.freeze({});

/** Runs `fn`, and all that it starts, with these fields added to the log context. */
export function withLogContext<T>(fields: LogContext, fn: () => T): T {
  return logStorage.run(Object.freeze({ ...logStorage.getStore(), ...fields }), fn);
}

/** The fields in force here; never null, never to be changed. */
export function currentLogContext(): LogContext {
  return logStorage.getStore() ?? EMPTY;
}
