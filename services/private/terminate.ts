import { waitUntil } from '../wait-until';
import { familyOf, isAlive, type ProcessIdentity } from './proc';

/** SIGKILL works at once, save for a process that waits for a disk. */
const SIGKILL_MS = 10_000;

/**
 * Ends a process and its whole family: asks the process with the signal, and kills what is left after the grace.
 *
 * @throws when something survives SIGKILL.
 */
export async function terminate(
  root: ProcessIdentity,
  signal: NodeJS.Signals,
  graceMs: number,
): Promise<void> {
  if (signal !== 'SIGKILL') {
    const family = familyOf(root);
    send(root, signal);
    if (await waitUntil(() => !family.some(isAlive), graceMs)) return;
  }
  await killFamily(root);
}

async function killFamily(root: ProcessIdentity): Promise<void> {
  // Stopped, it cannot give birth between the census and the kill.
  send(root, 'SIGSTOP');
  const family = familyOf(root);
  for (const member of family) send(member, 'SIGKILL');
  if (await waitUntil(() => !family.some(isAlive), SIGKILL_MS)) return;
  const survivors = family.filter(isAlive).map(({ pid }) => pid);
  throw new Error(`Processes ${survivors.join(', ')} survived SIGKILL.`);
}

function send(identity: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, signal);
  } catch (error) {
    // It ended in between.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
