import { readdirSync, readFileSync } from 'node:fs';

/**
 * A process for good: its number may be given to another one, its number and start time together may not.
 */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks between the boot of the machine and the start of the process. */
  readonly startTicks: number;
}

interface ProcessStatus extends ProcessIdentity {
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

/** Undefined when there is no such process. */
export function identify(pid: number): ProcessIdentity | undefined {
  const status = readStatus(pid);
  return status && { pid, startTicks: status.startTicks };
}

/** A zombie counts as dead: whoever reaps orphans on this machine may take its time. */
export function isAlive(identity: ProcessIdentity): boolean {
  const status = readStatus(identity.pid);
  return status?.startTicks === identity.startTicks && !'ZX'.includes(status.state);
}

/**
 * A process with everything that descends from it or lives in its process group or session. Groups alone would
 * not do: each backend of PostgreSQL and each port program of Erlang opens a session of its own.
 */
export function familyOf(root: ProcessIdentity): ProcessIdentity[] {
  const all = readdirSync('/proc').flatMap((name) =>
    /^\d+$/.test(name) ? (readStatus(Number(name)) ?? []) : [],
  );
  // Linux reuses a number only when no group or session is named after it, so another process under the number
  // of the root means that nothing of the family is left.
  if (all.some(({ pid, startTicks }) => pid === root.pid && startTicks !== root.startTicks)) return [];
  const family = new Set([root.pid]);
  let before = 0;
  while (family.size > before) {
    before = family.size;
    for (const { pid, parent, group, session } of all) {
      if (family.has(parent) || group === root.pid || session === root.pid) family.add(pid);
    }
  }
  return all.filter(({ pid }) => family.has(pid));
}

/** Reads `/proc/<pid>/stat`, whose second field, the name in parentheses, may itself contain anything. */
function readStatus(pid: number): ProcessStatus | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', parent, group, session] = fields;
  return {
    pid,
    state,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startTicks: Number(fields[19]),
  };
}
