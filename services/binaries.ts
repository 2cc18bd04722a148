import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { ServiceName } from './service';

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

export interface RedisBinaries {
  readonly server: string;
}

export interface RabbitmqBinaries {
  readonly server: string;
  readonly epmd: string;
}

/** The executables from which a private instance of each service is run. */
export interface Binaries {
  readonly postgres: PostgresBinaries;
  readonly redis: RedisBinaries;
  readonly rabbitmq: RabbitmqBinaries;
}

/** Looks for the executables of one service; undefined when one of them is missing. */
export type BinaryFinders = { readonly [Name in ServiceName]: () => Binaries[Name] | undefined };

/**
 * Looks into the directories of a PATH and below the root into those where Debian hides servers.
 */
export function createBinaryFinders(path: string, root = '/'): BinaryFinders {
  const onPath = path.split(delimiter).filter((directory) => directory !== '');
  return {
    postgres() {
      const directories = [...onPath, ...postgresDirectories(root)];
      const [initdb, postgres] = findTogether(['initdb', 'postgres'], directories);
      return initdb && postgres ? { initdb, postgres } : undefined;
    },
    redis() {
      const [server] = findTogether(['redis-server'], [...onPath, join(root, 'usr/bin')]);
      return server ? { server } : undefined;
    },
    rabbitmq() {
      // The rabbitmq-server on Debian's PATH is a wrapper that insists on the machine's own directories and user;
      // it is told from the real one by what lies beside it.
      const directories = [join(root, 'usr/lib/rabbitmq/bin'), ...onPath];
      const [server] = findTogether(['rabbitmq-server', 'rabbitmq-env'], directories);
      const [epmd] = findTogether(
        ['epmd'],
        [...onPath, join(root, 'usr/bin'), join(root, 'usr/lib/erlang/bin')],
      );
      return server && epmd ? { server, epmd } : undefined;
    },
  };
}

/** Debian keeps each major version apart and puts none on the PATH. The highest first. */
function postgresDirectories(root: string): string[] {
  const home = join(root, 'usr/lib/postgresql');
  try {
    const versions = readdirSync(home).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(home, version, 'bin'));
  } catch {
    return [];
  }
}

/** From the first directory that has all of the programs: halves of two installations do not fit. */
function findTogether(programs: readonly string[], directories: readonly string[]): string[] {
  for (const directory of directories) {
    const paths = programs.map((program) => join(directory, program));
    if (paths.every(isExecutable)) return paths;
  }
  return [];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
