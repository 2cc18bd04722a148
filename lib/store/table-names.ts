import { CeleryOutboxError } from '../errors';

/** Where the tables are: a schema (default: the connection's search_path) and the name of the outbox table. */
export interface TableOptions {
  /** @defaultValue `celery_outbox`; the other tables are named after it. */
  tableName?: string | undefined;
  /** @defaultValue the first schema of the connection's `search_path`. */
  schema?: string | undefined;
}

/** The tables, quoted and qualified, ready to stand in SQL text. */
export interface TableNames {
  readonly schema: string | undefined;
  readonly base: string;
  readonly outbox: string;
  readonly deadLetter: string;
  readonly sent: string;
  readonly idempotency: string;
  readonly pause: string;
}

// Plain identifiers only: they go into SQL text. 36 characters leave room for the longest suffix
// (of an index) below PostgreSQL's limit of 63, past which it would cut the name without an error.
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]{0,35}$/;

/**
 * @throws ERR_CELERY_OUTBOX_INVALID_OPTION for a name that is not a plain identifier.
 */
export function tableNames({ tableName = 'celery_outbox', schema }: TableOptions = {}): TableNames {
  assertIdentifier('tableName', tableName);
  if (schema !== undefined) assertIdentifier('schema', schema);
  const qualified = (suffix = ''): string =>
    (schema === undefined ? '' : `"${schema}".`) + `"${tableName}${suffix}"`;
  return Object.freeze({
    schema,
    base: tableName,
    outbox: qualified(),
    deadLetter: qualified('_dead_letter'),
    sent: qualified('_sent'),
    idempotency: qualified('_idempotency'),
    pause: qualified('_pause'),
  });
}

function assertIdentifier(option: string, value: unknown): void {
  if (typeof value === 'string' && IDENTIFIER.test(value)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `${option} must be a plain SQL identifier of at most 36 letters, digits and underscores, got ${JSON.stringify(value)}`,
  );
}
