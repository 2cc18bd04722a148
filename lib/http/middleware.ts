import { AsyncResource } from 'node:async_hooks';
import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Knex } from 'knex';
import { withLogContext, type LogContext } from '../context/log-context';
import { withIncomingTrace } from '../context/trace-headers';
import { type MiddlewareOptions, type MiddlewareSettings, parseMiddlewareOptions } from '../options';
import type { OutboxHome } from '../outbox/home';
import type { OutboxCelery } from '../outbox/outbox-celery';
import { UnitOfWork } from '../outbox/unit-of-work';
import { logEvent, type Logger } from '../telemetry/logger';
import { type Exchange, type Next, RequestTransaction } from './request-transaction';

/** Works in Express 4 and 5, Connect, and any stack that calls `(req, res, next)`. */
export type Middleware = (req: IncomingMessage, res: ServerResponse, next: Next) => void;

export interface MiddlewareHome {
  readonly home: OutboxHome;
  readonly celery: OutboxCelery;
  /** Requests that a middleware of this outbox has opened a transaction for. */
  readonly opened: WeakSet<object>;
}

/**
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION, ERR_CELERY_OUTBOX_UNKNOWN_OPTION
 */
export function createMiddleware(
  { home, celery, opened }: MiddlewareHome,
  options?: MiddlewareOptions,
): Middleware {
  const settings = parseMiddlewareOptions(options);
  return (req, res, next) => {
    // Mounted twice, on the application and on a router: the outer one has the transaction.
    if (opened.has(req)) {
      next();
      return;
    }
    let wanted: boolean;
    try {
      wanted = settings.when(req);
    } catch (error) {
      next(error);
      return;
    }
    const exchange = { req, res, next };
    withRequestContext(req, settings, home.settings.logger, () => {
      if (!wanted) {
        enter(exchange, { celery });
        return;
      }
      opened.add(req);
      const transaction = new RequestTransaction(exchange, settings, home.settings.logger);
      void transaction.start(UnitOfWork.begin(home), (trx) => {
        home.ambient.run(trx, () => {
          enter(exchange, { celery: celery.boundTo(trx), trx });
        });
      });
    });
  };
}

// Events of the request come from the HTTP parser, which knows nothing of our context: listeners that the
// handler adds would run outside its transaction. (AsyncResource.bind would do the same at six times the cost.)
function enter({ req, res, next }: Exchange, fields: { celery: OutboxCelery; trx?: Knex.Transaction }): void {
  Object.assign(req, fields);
  const scope = new AsyncResource('express-celery-outbox');
  for (const emitter of [req, res] as EventEmitter[]) {
    const emit = emitter.emit.bind(emitter);
    emitter.emit = (...args) => scope.runInAsyncScope(emit, undefined, ...args);
  }
  next();
}

function withRequestContext(
  req: IncomingMessage,
  settings: MiddlewareSettings,
  logger: Logger,
  fn: () => void,
): void {
  let fields: LogContext = {};
  try {
    fields = settings.context?.(req) ?? {};
  } catch (error) {
    logEvent(logger, 'warn', 'celery_outbox_context_failed', { error });
  }
  withIncomingTrace(req.headers, () => {
    withLogContext(fields, fn);
  });
}
