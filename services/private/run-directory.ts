import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { identify, isAlive, type ProcessIdentity } from './proc';
import { releaseSharedMemory } from './shared-memory';
import { terminate } from './terminate';

const PREFIX = 'outbox-services-';
const OWNED = new RegExp(`^${PREFIX}(\\d+)-(\\d+)-`);
const RECORDS = 'processes';
const DISCARD_GRACE_MS = 5_000;

/**
 * Creates the directory that holds all a supervisor starts. The owner is part of its name, so at no moment is
 * there a directory of ours without one.
 */
export function createRunDirectory(): string {
  const owner = identify(process.pid);
  if (!owner) throw new Error('Private services need /proc, that is, Linux.');
  const name = `${PREFIX}${owner.pid}-${owner.startTicks}-`;
  const directory = mkdtempSync(join(tmpdir(), name));
  // PostgreSQL, as its own user, has to pass through to its part.
  chmodSync(directory, 0o711);
  mkdirSync(join(directory, RECORDS), { mode: 0o700 });
  return directory;
}

/** Notes a process of the run, for the one who has to end it if its supervisor no longer can. */
export function recordProcess(directory: string, identity: ProcessIdentity, discardSignal: string): void {
  const record = `${identity.pid}-${identity.startTicks}-${discardSignal}`;
  writeFileSync(join(directory, RECORDS, record), '');
}

/** Ends every process recorded in the directory, then removes it with all it left in the kernel. */
export async function discardRunDirectory(directory: string): Promise<void> {
  // Newest first: RabbitMQ without the epmd it was started with would start another.
  for (const { signal, ...identity } of readRecords(directory).reverse()) {
    await terminate(identity, signal, DISCARD_GRACE_MS);
  }
  await releaseSharedMemory(directory);
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Discards the directories whose supervisor was itself killed. Those of other users are not ours to judge: their
 * records could name any process.
 */
export async function sweepRunDirectories(): Promise<void> {
  for (const { directory, owner } of listRunDirectories()) {
    if (!isAlive(owner)) await discardRunDirectory(directory);
  }
}

/** The directories of this user's supervisors, living and dead. */
export function listRunDirectories(): { directory: string; owner: ProcessIdentity }[] {
  return readdirSync(tmpdir()).flatMap((name) => {
    const [, pid, startTicks] = OWNED.exec(name) ?? [];
    const directory = join(tmpdir(), name);
    if (pid === undefined || startTicks === undefined || !isOurs(directory)) return [];
    return [{ directory, owner: { pid: Number(pid), startTicks: Number(startTicks) } }];
  });
}

function isOurs(directory: string): boolean {
  const status = lstatSync(directory, { throwIfNoEntry: false });
  return status?.isDirectory() === true && status.uid === process.getuid?.();
}

function readRecords(directory: string): (ProcessIdentity & { signal: NodeJS.Signals })[] {
  let names: string[];
  try {
    names = readdirSync(join(directory, RECORDS));
  } catch {
    // Killed before its first process, or half removed already.
    return [];
  }
  const records = names.map((name) => {
    const [pid, startTicks, signal] = name.split('-');
    return { pid: Number(pid), startTicks: Number(startTicks), signal: signal as NodeJS.Signals };
  });
  return records.sort((a, b) => a.startTicks - b.startTicks || a.pid - b.pid);
}
