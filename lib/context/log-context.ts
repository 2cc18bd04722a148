import { AsyncLocalStorage } from 'node:async_hooks';

/** Fields that go with every log line, with every task, and on to the worker's logs. */
export type LogContext = Readonly<Record<string, unknown>>;

const storage = new AsyncLocalStorage<LogContext>();
const EMPTY: LogContext = Object.freeze({});

/** Runs `fn`, and all that it starts, with these fields added to the log context. */
export function withLogContext<T>(fields: LogContext, fn: () => T): T {
  return storage.run(Object.freeze({ ...storage.getStore(), ...fields }), fn);
}

/** The fields in force here; never null, never to be changed. */
export function currentLogContext(): LogContext {
  return storage.getStore() ?? EMPTY;
}
