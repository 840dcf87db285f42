import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { until } from '../support/until.ts';

/** The copy's name on the machine, from its data folder. */
export function copyIdOf(dataDir: string): string {
  return (JSON.parse(readFileSync(path.join(dataDir, 'oci/copy.json'), 'utf8')) as { id: string }).id;
}

/** Host's numbers of the first process of a sandbox's container and of its shim. */
export function pidsOf(dataDir: string, sandboxId: SandboxId): { shim: number; init: number } {
  const [shim, , init] = readFileSync(path.join(dataDir, 'oci/sandboxes', sandboxId, 'pids'), 'utf8').split(' ');
  return { shim: Number(shim), init: Number(init) };
}

/** Host's number of a sandbox's agent. */
export function agentPidOf(dataDir: string, sandboxId: SandboxId): number {
  return Number(readFileSync(path.join(dataDir, 'oci/sandboxes', sandboxId, 'agent'), 'utf8').split(' ')[0]);
}

/**
 * What a power cut does to a host, its disk aside: every process of every sandbox, their shims and their guard at once,
 * then their control groups, links and firewall. The host worker must be down.
 */
export async function losePower(dataDir: string): Promise<void> {
  const id = copyIdOf(dataDir);
  const parents = readdirSync('/sys/fs/cgroup')
    .map((name) => `/sys/fs/cgroup/${name}/sandboxes-${id}`)
    .concat(`/sys/fs/cgroup/sandboxes-${id}`);
  const pids = () => {
    const grouped = parents.flatMap((parent) =>
      groupsBelow(parent).flatMap((group) => linesOf(path.join(group, 'cgroup.procs'))),
    );
    const shims = readdirSync('/proc').filter((pid) =>
      linesOf(`/proc/${pid}/cmdline`).join('').includes(`interface=sb${id}-`),
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
      // Frozen ones die where the freezer does not hold them.
      for (const root of ['freezer', 'unified']) moveTo(`/sys/fs/cgroup/${root}/cgroup.procs`, pid);
    }
    return left.length === 0;
  });
  const links = readdirSync('/sys/class/net').filter((name) => name.startsWith(`sb${id}`));
  for (const link of links) execFileSync('ip', ['link', 'delete', link]);
  execFileSync('nft', ['delete', 'table', 'inet', `sandboxes_${id}`]);
  for (const parent of parents) {
    for (const group of groupsBelow(parent)) execFileSync('rmdir', ['--ignore-fail-on-non-empty', group]);
  }
}

/** Deepest first, the parent last. */
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
    // It is gone already, or this machine has no such hierarchy.
  }
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}
