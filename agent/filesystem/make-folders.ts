import fs from 'node:fs/promises';
import path from 'node:path';
import { systemPath } from './path.ts';

/**
 * Makes a folder and its missing parents. Node's own `recursive` option never ends in `/proc`: there the error for a
 * folder that cannot be made is "not found", as if its parent were missing.
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
