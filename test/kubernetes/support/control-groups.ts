import fs from 'node:fs';
import path from 'node:path';
import { until } from '../../support/until.ts';

const hierarchies = '/sys/fs/cgroup';

/**
 * The control groups of a node's pods: one folder with the same name in each hierarchy of version 1. The kubelet makes
 * its own groups below them.
 */
export class ClusterGroups {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /** The path in the form of the kubelet and containerd. */
  get path(): string {
    return `/${this.#name}`;
  }

  /** The folder in one hierarchy. */
  folder(hierarchy: string): string {
    return path.join(hierarchies, hierarchy, this.#name);
  }

  make(): void {
    const all = everyHierarchy();
    if (!all.includes('freezer')) throw new Error('The cluster of the tests needs control groups of version 1');
    for (const hierarchy of all) fs.mkdirSync(this.folder(hierarchy), { recursive: true });
    // A new group of this hierarchy accepts processes only after it has processors and memory nodes.
    if (!all.includes('cpuset')) return;
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      fs.writeFileSync(
        path.join(this.folder('cpuset'), file),
        fs.readFileSync(path.join(hierarchies, 'cpuset', file), 'utf8'),
      );
    }
  }

  /** The numbers of the processes in the groups and below, in this process's PID namespace. */
  processes(): number[] {
    const pids = this.#existing().flatMap((folder) => groupsBelow(folder).flatMap(processesIn));
    return [...new Set(pids)];
  }

  /** Thaws all groups, because a frozen process does not even end on SIGKILL. */
  thaw(): void {
    const folder = this.folder('freezer');
    if (!fs.existsSync(folder)) return;
    for (const group of groupsBelow(folder)) {
      const state = path.join(group, 'freezer.state');
      if (fs.existsSync(state)) fs.writeFileSync(state, 'THAWED');
    }
  }

  /** Kills the processes in the groups and removes the groups. */
  async remove(): Promise<void> {
    const kill = () => {
      this.thaw();
      for (const pid of this.processes()) endProcess(pid);
      return this.processes().length === 0;
    };
    await until(kill, 30_000);
    for (const folder of this.#existing()) {
      // The deepest groups come first. A group can be removed when its last process is reaped.
      for (const group of groupsBelow(folder).reverse()) await until(() => isRemoved(group), 10_000);
    }
  }

  /** Whether no hierarchy has such a group. */
  get areGone(): boolean {
    return this.#existing().length === 0;
  }

  /** The folders that exist. The folder of version 2 exists if the container runtime has made it. */
  #existing(): string[] {
    return [...everyHierarchy(), 'unified']
      .map((hierarchy) => this.folder(hierarchy))
      .filter((folder) => fs.existsSync(folder));
  }
}

/** The hierarchies of version 1. The symbolic links next to them are other names of combined hierarchies. */
function everyHierarchy(): string[] {
  const entries = fs.readdirSync(hierarchies, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && entry.name !== 'unified').map(({ name }) => name);
}

/** A group and all groups below it, parents first. */
function groupsBelow(folder: string): string[] {
  const entries = fs.readdirSync(folder, { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(folder, name));
  return [folder, ...folders.flatMap(groupsBelow)];
}

function processesIn(group: string): number[] {
  return fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function isRemoved(group: string): boolean {
  try {
    fs.rmdirSync(group);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return true;
    if (code === 'EBUSY') return false;
    throw error;
  }
}
