/**
 * The settings that every PostgreSQL of ours has, as arguments of `postgres`.
 *
 * Without `durable`, a crash of the machine may lose the data; a crash of PostgreSQL alone, which is what a test
 * can cause, still loses nothing that was committed.
 */
export function postgresSettings(durable: boolean): string[] {
  const settings = ['max_connections=200', 'timezone=UTC', 'log_timezone=UTC', 'log_checkpoints=off'];
  if (!durable) settings.push('fsync=off', 'full_page_writes=off');
  return settings.flatMap((setting) => ['-c', setting]);
}
