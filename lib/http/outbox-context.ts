import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OutboxRequest } from './request-types';
import type { Next } from './request-transaction';

/** What a consumer's thunk is given. */
export type OutboxContext = Pick<OutboxRequest, 'trx' | 'celery'>;

type Run = <R>(thunk: Thunk<R>) => R;
export type Thunk<R> = (context: OutboxContext, run: Run) => R;
export type HandlerThunk = (req: never, res: never, next: Next) => Thunk<unknown>;
export type ErrorHandlerThunk = (error: never, req: never, res: never, next: Next) => Thunk<unknown>;

/** The two halves of express-async-context, for `req.trx` and `req.celery`. */
export interface OutboxContextManager {
  /** To be mounted after `outbox.middleware()`. */
  provider(this: void, req: IncomingMessage, res: ServerResponse, next: Next): void;
  /** Unlike the package's own, it passes what an async thunk rejects with on to `next`. */
  consumer(
    this: void,
    handler: HandlerThunk,
  ): (req: IncomingMessage, res: ServerResponse, next: Next) => void;
  consumer(
    this: void,
    handler: ErrorHandlerThunk,
  ): (error: unknown, req: IncomingMessage, res: ServerResponse, next: Next) => void;
}

type AnyHandler = (...args: unknown[]) => unknown;
interface ContextPackage {
  default(
    this: void,
    factory: (req: OutboxRequest) => OutboxContext,
  ): {
    provider: OutboxContextManager['provider'];
    consumer(this: void, handler: AnyHandler): AnyHandler;
  };
}

/**
 * For those who use express-async-context (an optional peer): handlers that get the transaction and the
 * client as a context instead of reading them from the request.
 *
 * @example
 * const Context = createOutboxContext();
 * app.use(outbox.middleware(), Context.provider);
 * app.post('/orders', Context.consumer((req, res) => async ({ trx, celery }) => { … }));
 */
export function createOutboxContext(): OutboxContextManager {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- an optional peer, needed only here
  const { default: createContext } = require('express-async-context') as ContextPackage;
  const context = createContext((req) => ({ trx: req.trx, celery: req.celery }));
  // express-async-context tells error handlers by their four parameters, as Express does.
  const consumer = (handler: AnyHandler): AnyHandler =>
    context.consumer(
      handler.length === 4
        ? (error: unknown, req: unknown, res: unknown, next: unknown) =>
            guarded(handler(error, req, res, next), next as Next)
        : (req: unknown, res: unknown, next: unknown) => guarded(handler(req, res, next), next as Next),
    );
  return { provider: context.provider, consumer: consumer as OutboxContextManager['consumer'] };
}

// The package drops what a thunk returns: a rejection would be an unhandled one.
function guarded(thunk: unknown, next: Next): unknown {
  if (typeof thunk !== 'function') return thunk;
  return (context: OutboxContext, run: Run): void => {
    try {
      Promise.resolve((thunk as Thunk<unknown>)(context, run)).catch(next);
    } catch (error) {
      next(error);
    }
  };
}
