import { existsSync } from 'node:fs';
import { readdir, readFile, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { findHierarchies, type Hierarchies, readControllers } from '../machine/hierarchies.mjs';
import { until } from '../process/until.ts';

export type { Hierarchies };

const writeErrorsOfGoneGroup = new Set(['ENOENT', 'ENODEV']);

/** Where the groups of one copy are: `<root>/<parent>/<instance>` in each hierarchy. */
export class CgroupTree {
  readonly version: 1 | 2;
  readonly hybridRoot: string | null;
  readonly parent: string;
  readonly roots: string[];

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
    return readControllers(this).includes(controller);
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
