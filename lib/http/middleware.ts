import type { EventEmitter } from 'node:events';
import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Knex } from 'knex';
import { assertSync } from '../assert-options';
import { carryContext } from '../context/carry-context';
import { type LogContext, logStorage, withLogContext } from '../context/log-context';
import { incomingTrace, withIncomingTrace } from '../context/trace-headers';
import { CeleryOutboxError } from '../errors';
import { type MiddlewareOptions, type MiddlewareSettings, parseMiddlewareOptions } from '../options';
import type { OutboxHome } from '../outbox/home';
import type { OutboxCelery } from '../outbox/outbox-celery';
import { UnitOfWork } from '../outbox/unit-of-work';
import { logEvent, type Logger } from '../telemetry/logger';
import { handlerStorage } from './handler-scope';
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
      assertHttp1(res);
      wanted = assertSync(settings.when(req), 'when', () => undefined);
    } catch (error) {
      next(error);
      return;
    }
    const exchange = { req, res, next };
    withRequestContext(req, settings, home.settings.logger, () => {
      if (!wanted) {
        enter(exchange, { celery }, home.ambient);
        return;
      }
      opened.add(req);
      const transaction = new RequestTransaction(exchange, settings, home.settings.logger);
      void transaction.start(UnitOfWork.begin(home), (trx) => {
        home.ambient.run(trx, () => {
          enter(exchange, { celery: celery.boundTo(trx), trx }, home.ambient);
        });
      });
    });
  };
}

function enter(
  { req, res, next }: Exchange,
  fields: { celery: OutboxCelery; trx?: Knex.Transaction },
  ambient: OutboxHome['ambient'],
): void {
  Object.assign(req, fields);
  const inContext = carryContext(logStorage, incomingTrace, ambient, handlerStorage);
  for (const emitter of [req, res] as EventEmitter[]) {
    const emit = emitter.emit.bind(emitter);
    emitter.emit = (...args) => inContext(() => emit(...args));
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
  const report = (error: unknown): void => {
    logEvent(logger, 'warn', 'celery_outbox_context_failed', { error });
  };
  try {
    fields = assertSync(settings.context?.(req) ?? {}, 'context', report);
  } catch (error) {
    report(error);
  }
  withIncomingTrace(req.headers, () => {
    withLogContext(fields, fn);
  });
}

// The gate knows how Node writes HTTP/1. Express has no other; of Connect-style stacks some do.
function assertHttp1(res: unknown): void {
  if (res instanceof ServerResponse) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    'The middleware must be given an http.ServerResponse, got another kind of response: HTTP/2 is not supported',
  );
}
