/** What PostgreSQL says of an error, as pg hands it on. */
interface DatabaseError extends Error {
  code: string;
  severity: string;
}

function isDatabaseError(error: unknown): error is DatabaseError {
  return error instanceof Error && 'severity' in error && 'code' in error;
}

/**
 * True if the server itself refused the statement and lives on: what it refused did not happen. A FATAL
 * error or a lost connection proves nothing about a COMMIT: the answer was lost, not necessarily the work.
 */
export function isRefusal(error: unknown): boolean {
  return isDatabaseError(error) && error.severity === 'ERROR';
}

/** The SQLSTATE of an error, if PostgreSQL gave one. */
export function sqlState(error: unknown): string | undefined {
  return isDatabaseError(error) ? error.code : undefined;
}

/**
 * PostgreSQL's own words. Knex puts the whole statement with its values before them, which may be a large
 * payload, and a secret one.
 */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const state = sqlState(error);
  const words = error.message.slice(error.message.lastIndexOf(' - ') + 1).replace(/^- /, '');
  return state === undefined ? words : `${words} (SQLSTATE ${state})`;
}
