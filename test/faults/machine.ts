import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { until } from '../support/until.ts';

/** The copy's name on the machine, derived from its data folder. */
export function readCopyId(dataDir: string): string {
  return (JSON.parse(readFileSync(path.join(dataDir, 'oci/copy.json'), 'utf8')) as { id: string }).id;
}

/** Pids on the host of the first process of a sandbox's container and of its shim. */
export function readSandboxPids(dataDir: string, sandboxId: SandboxId): { shim: number; init: number } {
  const [shim, , init] = readFileSync(path.join(dataDir, 'oci/sandboxes', sandboxId, 'pids'), 'utf8').split(' ');
  return { shim: Number(shim), init: Number(init) };
}

/** Pid on the host of a sandbox's agent. */
export function readAgentPid(dataDir: string, sandboxId: SandboxId): number {
  return Number(readFileSync(path.join(dataDir, 'oci/sandboxes', sandboxId, 'agent'), 'utf8').split(' ')[0]);
}

/**
 * Simulates a power cut of a host, except for its disk: it kills every process of every sandbox, their shims and their
 * guard at once, then removes their control groups, links and firewall. The host worker must be down.
 */
export async function losePower(dataDir: string): Promise<void> {
  const id = readCopyId(dataDir);
  const parents = readdirSync('/sys/fs/cgroup')
    .map((name) => `/sys/fs/cgroup/${name}/sandboxes-${id}`)
    .concat(`/sys/fs/cgroup/sandboxes-${id}`);
  const pids = () => {
    const grouped = parents.flatMap((parent) =>
      groupsBelow(parent).flatMap((group) => readLines(path.join(group, 'cgroup.procs'))),
    );
    const shims = readdirSync('/proc').filter((pid) =>
      readLines(`/proc/${pid}/cmdline`).join('').includes(`interface=sb${id}-`),
    );
    return [...new Set([...shims, ...grouped])].map(Number);
  };
  await until(() => {
    const left = pids();
    for (const pid of left) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
      // Frozen processes end in a group that the freezer does not hold.
      for (const root of ['freezer', 'unified']) moveTo(`/sys/fs/cgroup/${root}/cgroup.procs`, pid);
    }
    return left.length === 0;
  });
  for (const link of readdirSync('/sys/class/net').filter((name) => name.startsWith(`sb${id}`))) {
    try {
      execFileSync('ip', ['link', 'delete', link]);
    } catch (error) {
      // The kernel also removes a link some time after the last process of its sandbox.
      if (existsSync(`/sys/class/net/${link}`)) throw error;
    }
  }
  execFileSync('nft', ['delete', 'table', 'inet', `sandboxes_${id}`]);
  for (const parent of parents) {
    for (const group of groupsBelow(parent)) execFileSync('rmdir', ['--ignore-fail-on-non-empty', group]);
  }
}

/** The groups below a group, deepest first, and the group itself last. */
function groupsBelow(parent: string): string[] {
  try {
    const below = readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return [...below.flatMap((entry) => groupsBelow(path.join(parent, entry.name))), parent];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return [];
  }
}

function moveTo(file: string, pid: number): void {
  try {
    execFileSync('sh', ['-c', `echo ${pid} > ${file}`], { stdio: 'ignore' });
  } catch {
    // It is already removed, or this machine has no such hierarchy.
  }
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}
