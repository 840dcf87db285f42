import { readFileSync } from 'node:fs';

/** Identifies a process, so that a later process with the same number is not mistaken for it. */
export interface ProcessIdentity {
  pid: number;
  /** The start of the process, in clock ticks since the machine booted. */
  startTicks: string;
}

/** The process with this number now. Null when there is none, or only a zombie. */
export function processIdentity(pid: number): ProcessIdentity | null {
  const fields = readStat(pid);
  return fields ? { pid, startTicks: fields[19]! } : null;
}

/** The parent of a living process. */
export function readParent(pid: number): number | null {
  const fields = readStat(pid);
  return fields ? Number(fields[1]) : null;
}

/** Whether a process is the first one of a process namespace below this one. */
export function isFirstOfNamespace(pid: number): boolean {
  return /^NSpid:.*\t1$/m.test(readOrEmpty(`/proc/${pid}/status`));
}

/** The kernel function in which a thread waits and takes no signal. Null when it does not wait so. */
export function uninterruptibleWait(thread: number): string | null {
  return readStat(thread)?.[0] === 'D' ? readOrEmpty(`/proc/${thread}/wchan`) : null;
}

/** Whether a process was killed but has not ended. A frozen process ends when it is thawed. */
export function isKilled(pid: number): boolean {
  const pending = /^SigPnd:\t([0-9a-f]+)$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1] ?? '0';
  return ((BigInt(`0x${pending}`) >> 8n) & 1n) === 1n;
}

/** The fields of `/proc/<pid>/stat`, beginning with the state. */
function readStat(pid: number): string[] | null {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  if (stat === '') return null;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? null : fields;
}

/** Empty when there is no such process. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return '';
    throw error;
  }
}

/** Whether exactly this process still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return processIdentity(identity.pid)?.startTicks === identity.startTicks;
}

/**
 * Whether any process has the number of this one. It costs a thirtieth of `isAlive`, and is wrong for a zombie and for
 * a reused number.
 */
export function mayBeAlive({ pid }: ProcessIdentity): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** Sends a signal to exactly this process. False when the process is gone. */
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
