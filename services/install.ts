import { readFile, rm, writeFile } from 'node:fs/promises';
import { CATALOG } from './catalog';
import type { Platform } from './platform';
import type { ServiceName } from './service';

/** Our own policy file is known by this line, should one be left by an installation that was killed. */
const MARK = '# express-celery-outbox: no daemon is started while it installs packages.';

/** The Debian packages of the services. */
export function debianPackages(names: readonly ServiceName[]): string[] {
  return names.map((name) => CATALOG[name].debianPackage);
}

/**
 * Installs Debian packages, without the daemons that they would start on the default ports.
 */
export async function installPackages(packages: readonly string[], platform: Platform): Promise<void> {
  const environment = { DEBIAN_FRONTEND: 'noninteractive' };
  platform.notify(`Installing ${packages.join(', ')}: this machine does not have what they bring.`);
  await withoutDaemons(platform.policyFile, async () => {
    await platform.run('apt-get', ['update'], environment);
    await platform.run('apt-get', ['install', '-y', '--no-install-recommends', ...packages], environment);
  });
}

/** A policy that the machine has already is left alone: its owner decided. */
async function withoutDaemons(policyFile: string, install: () => Promise<void>): Promise<void> {
  const present = await readFile(policyFile, 'utf8').catch(() => undefined);
  if (present !== undefined && !present.includes(MARK)) {
    await install();
    return;
  }
  await writeFile(policyFile, policy(), { mode: 0o755 });
  try {
    await install();
  } finally {
    await rm(policyFile, { force: true });
  }
}

/** 101 means forbidden. Bound to this process, so that a file left behind forbids nothing for long. */
function policy(): string {
  return `#!/bin/sh\n${MARK}\nif kill -0 ${process.pid} 2>/dev/null; then exit 101; fi\nexit 0\n`;
}
