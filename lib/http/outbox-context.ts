import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Next } from './request-transaction';
import type { OutboxRequest } from './request-types';

/** What a consumer's thunk is given. */
export type OutboxContext = Pick<OutboxRequest, 'trx' | 'celery'>;

type Run = <R>(thunk: Thunk<R>) => R;
export type Thunk<R> = (context: OutboxContext, run: Run) => R;

/** The halves of express-async-context, for `req.trx` and `req.celery`. */
export interface OutboxContextManager<Req, Res> {
  /** To be mounted after `outbox.middleware()`. */
  readonly provider: (req: Req, res: Res, next: Next) => void;
  /** Unlike the package's own, it passes what an async thunk rejects with on to `next`. */
  readonly consumer: (
    handler: (req: Req, res: Res, next: Next) => Thunk<unknown>,
  ) => (req: Req, res: Res, next: Next) => void;
  /** The same for error handlers. */
  readonly errorConsumer: (
    handler: (error: Error, req: Req, res: Res, next: Next) => Thunk<unknown>,
  ) => (error: Error, req: Req, res: Res, next: Next) => void;
}

type AnyHandler = (...args: unknown[]) => unknown;
interface ContextPackage {
  readonly default: (factory: (req: OutboxRequest) => OutboxContext) => {
    readonly provider: AnyHandler;
    readonly consumer: (handler: AnyHandler) => AnyHandler;
  };
}

/**
 * For those who use express-async-context (an optional peer): handlers that get the transaction and the
 * client as a context instead of reading them from the request.
 *
 * @example
 * const Context = createOutboxContext<Request, Response>();
 * app.use(outbox.middleware(), Context.provider);
 * app.post('/orders', Context.consumer((req, res) => async ({ trx, celery }) => { … }));
 */
export function createOutboxContext<
  Req extends IncomingMessage = IncomingMessage,
  Res extends ServerResponse = ServerResponse,
>(): OutboxContextManager<Req, Res> {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- an optional peer, needed only here
  const { default: createContext } = require('express-async-context') as ContextPackage;
  const context = createContext((req) => ({ trx: req.trx, celery: req.celery }));
  // The package tells handlers from error handlers by the number of their parameters, as Express does.
  return {
    provider: context.provider,
    consumer: (handler) =>
      context.consumer((req, res, next) =>
        guarded(handler(req as Req, res as Res, next as Next), next as Next),
      ),
    errorConsumer: (handler) =>
      context.consumer((error, req, res, next) =>
        guarded(handler(error as Error, req as Req, res as Res, next as Next), next as Next),
      ),
  };
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
