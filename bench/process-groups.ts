import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readCpuMs, readEndedChildrenCpuMs } from './process-cpu.ts';

/** The total use of the processes of one kind. */
export interface GroupUse {
  processes: number;
  cpuMs: number;
  /** The use of ended programs that they ran. */
  endedCpuMs: number;
  /** Their own memory and their part of shared memory, in MiB. */
  residentMib: number;
}

const kinds: readonly [name: string, pattern: RegExp][] = [
  ['shims', /runtime\/oci\/shim\.pl/],
  ['lease guard', /lease-guard\.pl/],
  ['host worker', /worker\/host\.ts/],
  ['control worker', /worker\/control\.ts/],
  ['API', /api\/server\.ts/],
  ['gateway', /gateway\/(server|serving-process)\.ts/],
  ['Postgres', /^postgres: |\/postgres /],
  ['Temporal', /temporal-server/],
  ['payment processor', /localstripe/],
  ['supervisor', /ops\/local-stack\/start\.ts/],
];
/** Agents and their child processes. */
const inside = 'in sandboxes';
/** Errors of a process that has ended, or that this process may not read. */
const gone = new Set(['ENOENT', 'ESRCH', 'EACCES']);

/**
 * The use of a platform's processes, by the data folder: the supervisor, all processes that it started, and its
 * sandboxes, whose shims may have lost their parent.
 */
export function platformUse(supervisorPid: number, dataDir: string): Map<string, GroupUse> {
  const processes = readProcesses();
  const kindsByPid = new Map([[supervisorPid, 'supervisor']]);
  // A child usually has a higher number than its parent, but numbers wrap around.
  for (let before = 0; before < kindsByPid.size; ) {
    before = kindsByPid.size;
    for (const { pid, parent, commandLine, folder } of processes) {
      const parentKind = kindsByPid.get(parent);
      if (kindsByPid.has(pid) || (!parentKind && !folder.startsWith(`${dataDir}/`))) continue;
      const isInside = parentKind === 'shims' || parentKind === inside;
      kindsByPid.set(
        pid,
        isInside ? inside : (kinds.find(([, pattern]) => pattern.test(commandLine))?.[0] ?? 'others'),
      );
    }
  }
  const groups = new Map<string, GroupUse>();
  for (const [pid, kind] of kindsByPid) {
    const group = groups.get(kind) ?? { processes: 0, cpuMs: 0, endedCpuMs: 0, residentMib: 0 };
    try {
      const cpuMs = readCpuMs(pid);
      group.residentMib += proportionalMib(pid);
      group.cpuMs += cpuMs;
      group.endedCpuMs += readEndedChildrenCpuMs(pid);
      group.processes += 1;
    } catch (error) {
      if (!gone.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
    groups.set(kind, group);
  }
  return groups;
}

interface Process {
  pid: number;
  parent: number;
  commandLine: string;
  /** The working directory, which for a shim is the folder of its sandbox. */
  folder: string;
}

function readProcesses(): Process[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      const commandLine = readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ');
      const folder = readlinkSync(`/proc/${name}/cwd`);
      return [{ pid: Number(name), parent, commandLine, folder }];
    } catch (error) {
      if (gone.has((error as NodeJS.ErrnoException).code ?? '')) return [];
      throw error;
    }
  });
}

function proportionalMib(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024;
}
