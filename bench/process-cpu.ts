import { readFileSync } from 'node:fs';

/** Of the counters in `/proc/<pid>/stat`. */
const tickMs = 10;

/** Milliseconds of a processor that a process has used so far, in its own code and in the kernel on its behalf. */
export function cpuMsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** As `cpuMsOf`, of the children of a process that have ended, and of theirs. */
export function endedChildrenCpuMsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
