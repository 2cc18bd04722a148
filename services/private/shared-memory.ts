import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/**
 * Removes the System V segment by which PostgreSQL guards its data directory. The postmaster removes it itself
 * unless it was killed and never started again; then only a reboot would.
 */
export async function releaseSharedMemory(runDirectory: string): Promise<void> {
  const lockFile = await readIfPresent(join(runDirectory, 'postgres', 'data', 'postmaster.pid'));
  const segments = await readIfPresent('/proc/sysvipc/shm');
  if (lockFile === undefined || segments === undefined) return;
  const [postmaster, , , , , , segment = ''] = lockFile.split('\n');
  const [key, id] = segment.trim().split(/\s+/);
  if (id !== undefined && isAbandoned(segments, { key, id, creator: postmaster })) {
    await promisify(execFile)('ipcrm', ['-m', id]).catch(() => undefined);
  }
}

/** Numbers start again with each boot: only all of them together make it the segment of this postmaster. */
function isAbandoned(
  segments: string,
  wanted: Record<'key' | 'id' | 'creator', string | undefined>,
): boolean {
  return segments.split('\n').some((line) => {
    const [key, id, , , creator, , attached] = line.trim().split(/\s+/);
    return key === wanted.key && id === wanted.id && creator === wanted.creator && attached === '0';
  });
}

async function readIfPresent(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}
