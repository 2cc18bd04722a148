import { readFileSync } from 'node:fs';
import type { Account } from './program';

/** PostgreSQL's own user comes with the Debian package; `nobody` is on every machine. */
const CANDIDATES = ['postgres', 'nobody'];

/**
 * Who runs what refuses to be run by root. Undefined when we are not root: then we run it ourselves.
 *
 * @throws when root has nobody to hand it to.
 */
export function unprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
  for (const candidate of CANDIDATES) {
    const [, , uid, gid] = lines.find((line) => line.startsWith(`${candidate}:`))?.split(':') ?? [];
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error(
    `PostgreSQL does not run as root, and there is no user ${CANDIDATES.join(' or ')} to run it.`,
  );
}
