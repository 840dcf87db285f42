import { readFileSync } from 'node:fs';

/** The unit of the counters in `/proc/<pid>/stat`. */
const tickMs = 10;

/** The processor milliseconds of a process so far, in its own code and in the kernel on its behalf. */
export function readCpuMs(pid: number): number {
  const fields = readStat(pid);
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** As `readCpuMs`, for the ended children of a process and their descendants. */
export function readEndedChildrenCpuMs(pid: number): number {
  const fields = readStat(pid);
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

function readStat(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
