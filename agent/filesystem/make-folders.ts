import fs from 'node:fs/promises';
import path from 'node:path';
import { systemPath } from './path.ts';

/**
 * Makes a folder and what is missing of its parents. Node's own way never ends in `/proc`, which says that a folder
 * which cannot be made there is not found, as if its parent were missing.
 * @throws errno
 */
export async function makeFolders(folder: string): Promise<void> {
  try {
    await makeUnlessThere(folder);
  } catch (error) {
    const parent = path.dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder) throw error;
    await makeFolders(parent);
    await makeUnlessThere(folder);
  }
}

async function makeUnlessThere(folder: string): Promise<void> {
  const target = systemPath(folder);
  try {
    await fs.mkdir(target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!(await fs.stat(target)).isDirectory()) throw error;
  }
}
