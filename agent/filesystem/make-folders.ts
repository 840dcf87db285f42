import fs from 'node:fs/promises';
import path from 'node:path';
import { systemPath } from './path.ts';
import type { Owner } from './view.ts';

/**
 * Makes a folder and its missing parents, and gives those that it makes to `owner`. Node's own `recursive` option never ends in `/proc`: there the error for a
 * folder that cannot be made is "not found", as if its parent were missing.
 * @throws errno
 */
export async function makeFolders(folder: string, owner?: Owner): Promise<void> {
  try {
    await makeUnlessThere(folder, owner);
  } catch (error) {
    const parent = path.dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder) throw error;
    await makeFolders(parent, owner);
    await makeUnlessThere(folder, owner);
  }
}

async function makeUnlessThere(folder: string, owner: Owner | undefined): Promise<void> {
  const target = systemPath(folder);
  try {
    await fs.mkdir(target);
    if (owner) await fs.lchown(target, owner.uid, owner.gid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!(await fs.stat(target)).isDirectory()) throw error;
  }
}
