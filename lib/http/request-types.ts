import type { Knex } from 'knex';
import type { OutboxCelery } from '../outbox/outbox-celery';

/** What the middleware puts on a request. */
export interface OutboxRequest {
  /**
   * The transaction of this request. Only on requests that `when` chooses (by default all but GET, HEAD and
   * OPTIONS); on others it is undefined.
   */
  trx: Knex.Transaction;
  /** The Celery client of this request: what it sends is stored in `trx`. */
  celery: OutboxCelery;
}

declare global {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- Express's own way of adding to its Request
  namespace Express {
    // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- declaration merging
    interface Request extends OutboxRequest {}
  }
}
