import { chown } from 'node:fs/promises';
import { join } from 'node:path';
import { answers } from '../answers';
import type { PostgresBinaries } from '../binaries';
import { freePort } from '../free-port';
import { postgresSettings } from '../postgres-settings';
import { unprivilegedAccount } from './account';
import type { Recipe } from './program';

/**
 * PostgreSQL in a directory of its own; everybody on this machine may connect.
 */
export async function createPostgresRecipe(
  binaries: PostgresBinaries,
  directory: string,
  durable: boolean,
): Promise<Recipe> {
  const account = unprivilegedAccount();
  if (account) await chown(directory, account.uid, account.gid);
  const data = join(directory, 'data');
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const common = {
    directory,
    account,
    environment: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    logFile: join(directory, 'postgres.log'),
    // Fast shutdown: clients are cut off, a checkpoint is written.
    stopSignal: 'SIGINT',
    // Immediate shutdown: no checkpoint, but shared memory is released, which SIGKILL would leave behind.
    discardSignal: 'SIGQUIT',
  } as const;
  return {
    url,
    preparation: {
      ...common,
      command: binaries.initdb,
      args: ['-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--no-locale', '--no-sync'],
    },
    programs: [
      {
        ...common,
        command: binaries.postgres,
        args: ['-D', data, '-p', String(port), ...privateSettings(directory), ...postgresSettings(durable)],
        answers: () => answers.postgres(url),
      },
    ],
  };
}

function privateSettings(directory: string): string[] {
  return [
    ...['-c', 'listen_addresses=127.0.0.1'],
    ...['-c', `unix_socket_directories=${directory}`],
    // Files of the data directory, where the default would leave some in /dev/shm after a SIGKILL.
    ...['-c', 'dynamic_shared_memory_type=mmap'],
  ];
}
