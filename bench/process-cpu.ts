import { readFileSync } from 'node:fs';

/** Of the counters in `/proc/<pid>/stat`. */
const tickMs = 10;

/** Milliseconds of a processor that a process has used so far, in its own code and in the kernel on its behalf. */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}
