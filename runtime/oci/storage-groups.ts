import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type CgroupTree, foldersBelow, ignoreGoneProcess, killIfThere, readPids, removeTree } from './cgroup-tree.ts';

/** The groups of the processes of one bucket: s3fs and its relay. */
export interface MountGroups {
  /** The path in the form of the container runtime. It is the same in every hierarchy. */
  runtimePath: string;
  /** Folders that must exist before the processes start. */
  made: string[];
  /** The folders that the relay joins. */
  relay: string[];
  /** The group below the sandbox's own to which s3fs is moved after the runtime has started it. Only on version 1. */
  charged: string[];
  /** Files in the folders, and the text to write to each. */
  limits: [file: string, text: string][];
  /** All folders, to be removed when the processes have ended. */
  all: string[];
  /** The group that is never frozen. Only on version 1. */
  freezerRoot: string | null;
}

/**
 * The parent of the groups of buckets. They are outside the sandboxes' own groups, so that each is frozen separately.
 */
export const storageGroup = 'storage';
/** CPU weight within the sandbox. Each of the sandbox's own processes has 1024. */
const storageCpuShares = 4096;

/** The groups of the processes that serve buckets to sandboxes. */
export class StorageGroups {
  readonly #tree: CgroupTree;

  constructor(tree: CgroupTree) {
    this.#tree = tree;
  }

  /**
   * The groups of a bucket's processes. They are frozen separately from the sandbox: after the sandbox, because its
   * processes may wait for them, and because a new bucket is mounted while the sandbox is frozen. Their use is charged
   * to the sandbox and limited below it. (Version 2 has only one hierarchy, so there they have the same limits but
   * count separately from the sandbox.)
   */
  mountGroups(instance: string, name: string, limit: { memoryBytes: number; processes: number }): MountGroups {
    const apart = path.join(storageGroup, instance, name);
    const inAll = (relative: string) => this.#tree.roots.map((root) => path.join(root, this.#tree.parent, relative));
    const runtimePath = `/${path.join(this.#tree.parent, apart)}`;
    if (this.#tree.version === 2) {
      const relay = inAll(`${apart}-relay`);
      const all = [...inAll(apart), ...relay];
      return { runtimePath, made: relay, relay, charged: [], limits: [], all, freezerRoot: null };
    }
    const charged = [
      ...new Set(['memory', 'cpu', 'cpuacct', 'pids'].map((each) => this.#tree.file(each, instance, name))),
    ];
    const frozen = path.join(this.#tree.controllerRoot('freezer'), this.#tree.parent, `${apart}-relay`);
    const memory = String(limit.memoryBytes);
    const limits: [string, string][] = [
      [this.#tree.file('memory', path.join(instance, name), 'memory.limit_in_bytes'), memory],
      [this.#tree.file('pids', path.join(instance, name), 'pids.max'), String(limit.processes)],
    ];
    // Processes that wait for a bucket must not take processor time from the processes that serve it.
    limits.push([this.#tree.file('cpu', path.join(instance, name), 'cpu.shares'), String(storageCpuShares)]);
    if (this.#tree.limitsSwap()) {
      limits.splice(1, 0, [
        this.#tree.file('memory', path.join(instance, name), 'memory.memsw.limit_in_bytes'),
        memory,
      ]);
    }
    return {
      runtimePath,
      made: [...charged, frozen],
      relay: [...charged, frozen],
      charged,
      limits,
      all: [...charged, frozen, ...inAll(apart)],
      freezerRoot: this.#tree.controllerRoot('freezer'),
    };
  }

  /** Names of the groups of a sandbox's buckets, in the form of instances. */
  async readNames(instance: string): Promise<string[]> {
    const names = new Set<string>();
    for (const folder of this.#tree.listFolders(path.join(storageGroup, instance))) {
      for (const each of await foldersBelow(folder)) names.add(path.join(storageGroup, instance, each));
    }
    return [...names];
  }

  /** Host process numbers of the processes that serve buckets of a sandbox, by the sandbox's instance. */
  async readProcesses(instance: string): Promise<number[]> {
    const pids = new Set<number>();
    for (const group of await this.readNames(instance)) {
      for (const pid of await readPids(this.#tree.file('freezer', group, 'cgroup.procs'))) pids.add(pid);
    }
    return [...pids];
  }

  /** Kills the processes that serve the buckets of a sandbox, after moving them out of its frozen groups. */
  async kill(instance: string): Promise<number> {
    const pids = await this.readProcesses(instance);
    for (const pid of pids) killIfThere(pid);
    if (pids.length > 0 && this.#tree.version === 1) {
      const outside = path.join(this.#tree.controllerRoot('freezer'), 'cgroup.procs');
      for (const pid of pids) await writeFile(outside, String(pid)).catch(ignoreGoneProcess);
    }
    return pids.length;
  }

  /** Removes the groups of a sandbox's buckets. Their processes must have ended. */
  async remove(instance: string): Promise<void> {
    for (const folder of this.#tree.listFolders(path.join(storageGroup, instance))) await removeTree(folder);
  }
}
