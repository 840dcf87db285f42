import { existsSync, readFileSync } from 'node:fs';
import { readdir, readFile, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { until } from '../process/until.ts';

/** The hierarchies mounted on this machine. */
export interface Hierarchies {
  version: 1 | 2;
  /** Every mounted hierarchy. Version 2 has only one. */
  roots: string[];
  /** The hierarchy of version 2 when it is mounted beside version 1. */
  hybridRoot: string | null;
}

const writeErrorsOfGoneGroup = new Set(['ENOENT', 'ENODEV']);

/** Where the groups of one copy are: `<root>/<parent>/<instance>` in each hierarchy. */
export class CgroupTree {
  readonly version: 1 | 2;
  readonly hybridRoot: string | null;
  readonly parent: string;
  readonly roots: readonly string[];

  constructor(parent: string, hierarchies: Hierarchies = findHierarchies()) {
    this.parent = parent;
    this.version = hierarchies.version;
    this.hybridRoot = hierarchies.hybridRoot;
    this.roots = hierarchies.roots;
  }

  /** The folders of an instance in every hierarchy, even if they do not exist. */
  listFolders(instance: string): string[] {
    return this.roots.map((root) => path.join(root, this.parent, instance));
  }

  /** A file of an instance's group. */
  file(controller: string, instance: string, name: string): string {
    const root = this.version === 2 ? this.roots[0]! : this.controllerRoot(controller);
    return path.join(root, this.parent, instance, name);
  }

  /** The hierarchy of version 1 that has a controller. */
  controllerRoot(controller: string): string {
    const root = this.roots.find((each) => path.basename(each).split(',').includes(controller));
    if (!root) throw new Error(`the ${controller} controller of control groups is not mounted`);
    return root;
  }

  limitsSwap(): boolean {
    if (this.version === 2) return existsSync('/proc/swaps');
    return existsSync(path.join(this.controllerRoot('memory'), 'memory.memsw.limit_in_bytes'));
  }

  /** Whether this machine has a controller. */
  has(controller: string): boolean {
    if (this.version === 1) return this.roots.some((root) => path.basename(root).split(',').includes(controller));
    return readFileSync(path.join(this.roots[0]!, 'cgroup.controllers'), 'latin1').split(/\s+/).includes(controller);
  }
}

export function ignoreGoneGroup(error: NodeJS.ErrnoException): void {
  if (!isGoneGroup(error)) throw error;
}

export function ignoreGoneProcess(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ESRCH') throw error;
}

export async function readPids(file: string): Promise<number[]> {
  try {
    const text = await readFile(file, 'latin1');
    return text.split('\n').filter(Boolean).map(Number);
  } catch (error) {
    if (isGoneGroup(error)) return [];
    throw error;
  }
}

/** Names of the groups in a group. Empty when the group does not exist. */
export async function foldersBelow(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  } catch (error) {
    if (isGoneGroup(error)) return [];
    throw error;
  }
}

/** Removes a group and the groups in it. */
export async function removeTree(folder: string): Promise<void> {
  for (const name of await foldersBelow(folder)) await removeTree(path.join(folder, name));
  await removeGroup(folder);
}

export async function removeGroup(folder: string): Promise<void> {
  const removed = await until(
    async () => {
      try {
        await rmdir(folder);
        return true;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT') return true;
        if (code === 'EBUSY') return false;
        throw error;
      }
    },
    { timeoutSeconds: 2, everyMs: 5 },
  );
  if (!removed) throw new Error(`control group ${folder} stays busy`);
}

export function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Whether an error says that a group is gone. */
export function isGoneGroup(error: unknown): boolean {
  return writeErrorsOfGoneGroup.has((error as NodeJS.ErrnoException).code ?? '');
}

/** Reads where control groups are mounted. */
function findHierarchies(): Hierarchies {
  const roots: string[] = [];
  let unified: string | null = null;
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [before, after] = line.split(' - ');
    const target = before?.split(' ')[4];
    const type = after?.split(' ')[0];
    if (!target?.startsWith('/sys/fs/cgroup')) continue;
    if (type === 'cgroup2') unified = target;
    else if (type === 'cgroup') roots.push(target);
  }
  if (roots.length === 0) {
    if (!unified) throw new Error('control groups are not mounted at /sys/fs/cgroup');
    return { version: 2, roots: [unified], hybridRoot: null };
  }
  return { version: 1, roots: unified ? [...roots, unified] : roots, hybridRoot: unified };
}
