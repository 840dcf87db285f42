import { readFileSync } from 'node:fs';

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessIdentity {
  pid: number;
  /** When it started, in clock ticks since the machine booted. */
  startTicks: string;
}

/** Who has this number now; null when nobody, or only a zombie. */
export function processIdentity(pid: number): ProcessIdentity | null {
  const fields = statOf(pid);
  return fields ? { pid, startTicks: fields[19]! } : null;
}

/** The parent of a process that lives. */
export function parentOf(pid: number): number | null {
  const fields = statOf(pid);
  return fields ? Number(fields[1]) : null;
}

/** What the kernel tells of a process from its state on. */
function statOf(pid: number): string[] | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return null;
    throw error;
  }
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? null : fields;
}

/** Whether this very process still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return processIdentity(identity.pid)?.startTicks === identity.startTicks;
}

/** Signals this very process; false when it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    process.kill(identity.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}
