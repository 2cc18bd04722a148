import type { Knex } from 'knex';

export interface RowParts {
  task_name?: string;
  args?: string;
  options?: string;
  ordering_key?: string | null;
  retries?: number;
  schema_version?: number;
  log_context?: string | null;
  trace_headers?: string | null;
  /** SQL for available_at. */
  available_at?: string;
}

/** Rows as a committed request leaves them. @returns their task ids, in order */
export async function insertTasks(knex: Knex, count: number, parts: RowParts = {}): Promise<string[]> {
  const { rows } = await knex.raw<{ rows: { task_id: string }[] }>(
    `INSERT INTO celery_outbox (task_id, task_name, args, kwargs, options, ordering_key, retries, schema_version,
      log_context, trace_headers, available_at)
    SELECT gen_random_uuid()::text, ?, ?::json, '{}', ?::json, ?, ?, ?, ?::json, ?::json,
      ${parts.available_at ?? 'statement_timestamp()'}
    FROM generate_series(1, ?) RETURNING task_id`,
    [
      parts.task_name ?? 'tests.noop',
      parts.args ?? '[]',
      parts.options ?? '{}',
      parts.ordering_key ?? null,
      parts.retries ?? 0,
      parts.schema_version ?? 1,
      parts.log_context ?? null,
      parts.trace_headers ?? null,
      count,
    ] as Knex.RawBinding[],
  );
  return rows.map(({ task_id }) => task_id);
}
