import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';

/**
 * Records the users of an image: for each folder of a sandbox or pool member, of every copy that shares the cache,
 * there is a link to it beside the image. A link is valid while its folder exists, so links need no explicit removal.
 */
const usersOf = (imageFolder: string) => `${imageFolder}.users`;

/** Call this after the folder exists and before its container runs. @param folder absolute */
export async function noteImageUser(imageFolder: string, folder: string): Promise<void> {
  const link = path.join(usersOf(imageFolder), createHash('sha256').update(folder).digest('hex').slice(0, 32));
  await mkdir(usersOf(imageFolder), { recursive: true });
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

/** Whether a folder uses the image. Removes the links of missing folders. */
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
