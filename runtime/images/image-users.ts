import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';

/**
 * Who lies on an image: for each folder of a sandbox or pool member, of any copy that shares the cache, a link to it
 * beside the image. A link counts for as long as the folder is there, so nothing has to be taken back.
 */
const usersOf = (imageFolder: string) => `${imageFolder}.users`;

/** Call it once the folder is there and before its container runs. @param folder absolute */
export async function noteImageUser(imageFolder: string, folder: string): Promise<void> {
  const link = path.join(usersOf(imageFolder), createHash('sha256').update(folder).digest('hex').slice(0, 32));
  await mkdir(usersOf(imageFolder), { recursive: true });
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Whether a folder lies on the image; links of those that are gone are removed. */
export async function hasImageUser(imageFolder: string): Promise<boolean> {
  const links = await readdir(usersOf(imageFolder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  let found = false;
  for (const name of links) {
    const link = path.join(usersOf(imageFolder), name);
    if (existsSync(await readlink(link))) found = true;
    else await rm(link, { force: true });
  }
  return found;
}

export async function forgetImageUsers(imageFolder: string): Promise<void> {
  await rm(usersOf(imageFolder), { recursive: true, force: true });
}
