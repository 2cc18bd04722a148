import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { createBinaryFinders, type BinaryFinders } from './binaries';
import { engineAnswers } from './docker-engine';

export type Environment = Readonly<Partial<Record<string, string>>>;

/**
 * What the choice of a service depends on. Tests hand in a machine that is not this one.
 */
export interface Platform {
  readonly environment: Environment;
  readonly isRoot: boolean;
  readonly hasApt: boolean;
  /** The file that Debian's packages ask before they start their daemons. */
  readonly policyFile: string;
  readonly find: BinaryFinders;
  dockerAnswers(): Promise<boolean>;
  /** Runs a command to its end; rejects with what it printed when it fails. */
  run(command: string, args: readonly string[], environment: Environment): Promise<void>;
  /** Tells the user about something that takes long. */
  notify(line: string): void;
}

/** The longest thing ever run is an installation over a slow network. */
const RUN_DEADLINE_MS = 10 * 60_000;
/** Node would kill what prints more than a megabyte, in the middle of an installation. */
const MAX_OUTPUT_BYTES = 2 ** 28;

/** This machine. */
export function hostPlatform(): Platform {
  const environment = process.env;
  return {
    environment,
    isRoot: process.getuid?.() === 0,
    hasApt: existsSync('/usr/bin/apt-get'),
    policyFile: '/usr/sbin/policy-rc.d',
    find: process.platform === 'linux' ? createBinaryFinders(environment['PATH'] ?? '') : NOTHING_FOUND,
    dockerAnswers: () => engineAnswers(environment),
    async run(command, args, extra) {
      const env = { ...environment, ...extra };
      await promisify(execFile)(command, args, {
        env,
        timeout: RUN_DEADLINE_MS,
        maxBuffer: MAX_OUTPUT_BYTES,
      });
    },
    notify(line) {
      process.stderr.write(`${line}\n`);
    },
  };
}

/** The supervisor tells its processes apart by Linux's /proc; without it, it could leave some behind. */
const NOTHING_FOUND: BinaryFinders = {
  postgres: () => undefined,
  redis: () => undefined,
  rabbitmq: () => undefined,
};
