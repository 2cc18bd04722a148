import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { installPackages } from './install';
import { hostPlatform, type Platform } from './platform';

// The first of a PATH may be one that a version manager put there; Debian's packages belong to its own.
const CANDIDATES = ['python3', '/usr/bin/python3'];
const PACKAGES = ['python3-celery', 'python3-redis'];
const PROBE_DEADLINE_MS = 30_000;

/** Whether a Python has Celery and its Redis client. */
export type Probe = (python: string) => Promise<boolean>;

let found: Promise<string> | undefined;

/** A Python that has Celery, for those who run workers; looked for once. @throws as {@link findCelery} */
export function celeryPython(): Promise<string> {
  return (found ??= findCelery(hostPlatform(), importsCelery));
}

/**
 * Looks for a Python that has Celery; where there is none, installs Debian's if it may.
 *
 * @throws an error with the one command that helps
 */
export async function findCelery(platform: Platform, probe: Probe): Promise<string> {
  const present = await find(probe);
  if (present !== undefined) return present;
  if (platform.isRoot && platform.hasApt) {
    await installPackages(PACKAGES, platform);
    const installed = await find(probe);
    if (installed !== undefined) return installed;
  }
  const command = platform.hasApt
    ? `${platform.isRoot ? '' : 'sudo '}apt-get install -y ${PACKAGES.join(' ')}`
    : "pip install 'celery[redis]'";
  throw new Error(`No Python with Celery (tried ${CANDIDATES.join(', ')}). Run: ${command}`);
}

async function find(probe: Probe): Promise<string | undefined> {
  for (const python of CANDIDATES) if (await probe(python)) return python;
  return undefined;
}

const importsCelery: Probe = (python) =>
  promisify(execFile)(python, ['-c', 'import celery, redis'], { timeout: PROBE_DEADLINE_MS }).then(
    () => true,
    () => false,
  );
