import { AsyncLocalStorage } from 'node:async_hooks';
import type { Knex } from 'knex';
import { DirectSender } from './broker/direct-sender';
import { ResultBackend } from './broker/result-backend';
import { createMiddleware, type Middleware } from './http/middleware';
import { type MiddlewareOptions, type OutboxOptions, parseOutboxOptions } from './options';
import type { OutboxHome } from './outbox/home';
import { Ledgers } from './outbox/ledgers';
import { OutboxCelery } from './outbox/outbox-celery';
import { runTransaction } from './outbox/run-transaction';
import { Notifier } from './store/notifier';
import { OutboxEvents } from './telemetry/events';

export interface Outbox {
  /** Writes in the transaction that it is called in. */
  readonly celery: OutboxCelery;
  readonly events: OutboxEvents;
  /** The request middleware: a transaction, `req.trx`, `req.celery`, and a response that waits for COMMIT. */
  middleware(options?: MiddlewareOptions): Middleware;
  /**
   * Runs `fn` in a transaction: committed, and proven to be, when this resolves. Inside another one it is a
   * savepoint of that. Sends through `celery` inside join it.
   */
  transaction<T>(fn: (trx: Knex.Transaction) => Promise<T>): Promise<T>;
  /** Sends a wake-up that is due and ends the outbox's own connections. The Knex instance is yours to destroy. */
  close(): Promise<void>;
}

/**
 * The web process's side of the outbox. Opens no connection of its own until one is needed.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION, ERR_CELERY_OUTBOX_UNKNOWN_OPTION
 */
export function createOutbox(options: OutboxOptions): Outbox {
  const settings = parseOutboxOptions(options);
  const { logger, celery: at } = settings;
  const events = new OutboxEvents(logger);
  const notifier = settings.notify ? new Notifier(settings) : undefined;
  const home: OutboxHome = {
    settings,
    ledgers: new Ledgers((tasks) => {
      if (tasks.length > 0) notifier?.stored();
      for (const task of tasks) events.emit('created', task);
    }),
    ambient: new AsyncLocalStorage(),
    results: new ResultBackend(at?.backend, logger),
    direct: at && new DirectSender(at, logger),
    isClosed: false,
  };
  const celery = new OutboxCelery(home);
  const opened = new WeakSet<object>();
  return {
    celery,
    events,
    middleware: (middlewareOptions) => createMiddleware({ home, celery, opened }, middlewareOptions),
    transaction: (fn) => runTransaction(home, fn),
    async close() {
      home.isClosed = true;
      await Promise.all([home.results.close(), home.direct?.close(), notifier?.close()]);
    },
  };
}
