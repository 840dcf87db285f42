import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The maximum depth of the kubelet's group below the root. */
const deepest = 4;
const pollMs = 1;
/** A state that is not reached is written again at this interval, because a forking process may have escaped it. */
const writeAgainMs = 50;

/** The file and the values with which one version of control groups freezes. */
interface Freezer {
  file: string;
  frozen: string;
  thawed: string;
  isFrozen: (group: string) => boolean;
  /** `limits`: the folder of the group's limits of processes. */
  hasProcesses: (group: string, limits: string) => boolean;
}

const version1: Freezer = {
  file: 'freezer.state',
  frozen: 'FROZEN',
  thawed: 'THAWED',
  isFrozen: (group) => read(group, 'freezer.state').startsWith('FROZEN'),
  // `cgroup.procs` lists only processes of the reader's own PID namespace.
  hasProcesses: (_, limits) => read(limits, 'pids.current').trim() !== '0',
};
const version2: Freezer = {
  file: 'cgroup.freeze',
  frozen: '1',
  thawed: '0',
  isFrozen: (group) => /^frozen 1$/m.test(read(group, 'cgroup.events')),
  hasProcesses: (group) => /^populated 1$/m.test(read(group, 'cgroup.events')),
};

/** Control groups of version 1 limit processes in a hierarchy of its own, with the same paths below its root. */
const version1Limits = 'pids';

/** The control groups of a node's containers, of version 1 or 2, with the kubelet's driver `cgroupfs` or `systemd`. */
export class NodeGroups {
  readonly #root: string;
  readonly #freezer: Freezer;
  /** The root of the hierarchy that limits processes. */
  readonly #limitsRoot: string;
  /** The kubelet's groups that contain all pods, from the last search. */
  #bases: string[] = [];

  private constructor(root: string, freezer: Freezer, limitsRoot: string) {
    this.#root = root;
    this.#freezer = freezer;
    this.#limitsRoot = limitsRoot;
  }

  /**
   * @param folder the mount point of the control groups: version 2, or version 1 with a folder `freezer`
   * @throws {Error} when the folder has no control groups that can freeze
   */
  static at(folder: string): NodeGroups {
    const hierarchy = path.join(folder, 'freezer');
    if (fs.existsSync(path.join(hierarchy, 'cgroup.procs'))) {
      return new NodeGroups(hierarchy, version1, path.join(folder, version1Limits));
    }
    if (fs.existsSync(path.join(folder, 'cgroup.controllers'))) {
      return new NodeGroups(folder, version2, folder);
    }
    throw new Error(`${folder} has no control groups that freeze`);
  }

  /**
   * The group of one container of one pod.
   * @param podUid the pod's uid in the API
   * @param containerId 64 hexadecimal digits
   * @returns null when the group does not exist
   */
  find(podUid: string, containerId: string): string | null {
    // Both are checked, because they become parts of paths.
    if (!/^[0-9a-f-]{36}$/.test(podUid) || !/^[0-9a-f]{64}$/.test(containerId)) return null;
    const found = this.#findBelow(this.#bases, podUid, containerId);
    if (found) return found;
    this.#bases = basesBelow(this.#root, deepest);
    return this.#findBelow(this.#bases, podUid, containerId);
  }

  /** Whether all processes of a group are frozen. False for a group that is gone. */
  isFrozen(group: string): boolean {
    return unlessGone(() => this.#freezer.isFrozen(group)) ?? false;
  }

  /**
   * Whether a group contains processes. gVisor and Kata Containers run a container's processes elsewhere, and its group
   * is empty. The kernel reports an empty group as frozen at once. True if the kernel does not count processes.
   */
  hasProcesses(group: string): boolean {
    return unlessGone(() => this.#freezer.hasProcesses(group, this.#limitsFolder(group))) ?? true;
  }

  /**
   * Limits the number of processes and threads in a group.
   * @returns false when the group is gone, or when the node does not limit processes
   */
  limitProcesses(group: string, most: number): boolean {
    const file = path.join(this.#limitsFolder(group), 'pids.max');
    return unlessGone(() => fs.writeFileSync(file, `${most}`, { flag: 'r+' })) !== null;
  }

  /**
   * Freezes or thaws a group, and waits until the kernel reports the state.
   * @returns whether the state was reached in time; false for a group that is gone
   */
  async set(group: string, state: 'frozen' | 'thawed', timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const write = () => {
      fs.writeFileSync(path.join(group, this.#freezer.file), this.#freezer[state]);
      return true;
    };
    const fromMs = performance.now();
    for (let writtenMs = Number.NEGATIVE_INFINITY; performance.now() - fromMs < timeoutMs; ) {
      signal.throwIfAborted();
      if (performance.now() - writtenMs > writeAgainMs) {
        if (!unlessGone(write)) return false;
        writtenMs = performance.now();
      }
      const isFrozen = unlessGone(() => this.#freezer.isFrozen(group));
      if (isFrozen === null) return false;
      if (isFrozen === (state === 'frozen')) return true;
      await sleep(pollMs, undefined, { signal });
    }
    return false;
  }

  #limitsFolder(group: string): string {
    return path.join(this.#limitsRoot, path.relative(this.#root, group));
  }

  #findBelow(bases: readonly string[], podUid: string, containerId: string): string | null {
    const isPod = (name: string) =>
      name === `pod${podUid}` || name.endsWith(`-pod${podUid.replaceAll('-', '_')}.slice`);
    const isContainer = (name: string) => name === containerId || name.endsWith(`-${containerId}.scope`);
    for (const base of bases) {
      // Pods are below the group of their QoS class. Pods of the class Guaranteed are directly below the base.
      for (const parent of [base, ...foldersIn(base)]) {
        for (const pod of foldersIn(parent).filter((folder) => isPod(path.basename(folder)))) {
          const container = foldersIn(pod).find((folder) => isContainer(path.basename(folder)));
          if (container) return container;
        }
      }
    }
    return null;
  }
}

/** The names are `kubepods`, `kubepods.slice`, and `<root>-kubepods.slice` if the kubelet has its own cgroup root. */
const isBase = (folder: string) => /^(?:.*-)?kubepods(?:\.slice)?$/.test(path.basename(folder));

function basesBelow(folder: string, levels: number): string[] {
  return foldersIn(folder).flatMap((each) => {
    if (isBase(each)) return [each];
    return levels > 1 ? basesBelow(each, levels - 1) : [];
  });
}

function foldersIn(folder: string): string[] {
  const entries = unlessGone(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(folder, name));
}

function read(group: string, file: string): string {
  return fs.readFileSync(path.join(group, file), 'utf8');
}

/** Calls `act`. Null: the group is gone. */
function unlessGone<Answer>(act: () => Answer): Answer | null {
  try {
    return act();
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code!)) return null;
    throw error;
  }
}
