import type { AsyncLocalStorage } from 'node:async_hooks';
import type { Knex } from 'knex';
import type { DirectSender } from '../broker/direct-sender';
import type { ResultBackend } from '../broker/result-backend';
import type { OutboxSettings } from '../options';
import type { Ledgers } from './ledgers';

/** What all parts of one outbox share. */
export interface OutboxHome {
  readonly settings: OutboxSettings;
  readonly ledgers: Ledgers;
  /** The transaction that code runs in: the request's, `outbox.transaction()`'s, or a savepoint of one. */
  readonly ambient: AsyncLocalStorage<Knex.Transaction>;
  readonly results: ResultBackend;
  /** For `excludeTasks`; undefined without `celery`. */
  readonly direct: DirectSender | undefined;
  isClosed: boolean;
}
