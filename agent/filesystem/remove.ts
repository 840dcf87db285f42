import fs from 'node:fs';
import { looksMayHang } from './hanging-mounts.ts';
import { systemPath } from './path.ts';

/** How long the event loop is held before other requests have their turn. */
const sliceMs = 8;
/** How often a directory is looked at again that fills while it is being emptied. */
const emptyTries = 5;

/**
 * Removes what is at `absolutePath`, with all below it; links are not followed. A missing path is fine.
 * @throws errno
 */
export async function remove(absolutePath: string): Promise<void> {
  const target = Buffer.from(systemPath(absolutePath));
  if (looksMayHang()) {
    await fs.promises.rm(target, { recursive: true, force: true });
    return;
  }
  let sliceEnd = performance.now() + sliceMs;
  const turn = async () => {
    if (performance.now() < sliceEnd) return;
    await new Promise(setImmediate);
    sliceEnd = performance.now() + sliceMs;
  };
  await removeTree(target, turn);
}

async function removeTree(target: Buffer, turn: () => Promise<void>): Promise<void> {
  if (removeFile(target)) return;
  for (let tries = 1; ; tries++) {
    for (const name of await namesIn(target)) {
      const entry = Buffer.concat([target, Buffer.from('/'), name]);
      if (!removeFile(entry)) await removeTree(entry, turn);
      await turn();
    }
    try {
      fs.rmdirSync(target);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      // Something new has come meanwhile.
      if (code !== 'ENOTEMPTY' || tries === emptyTries) throw error;
    }
  }
}

/** Whether it is gone now; false: it is a directory. */
function removeFile(target: Buffer): boolean {
  try {
    fs.unlinkSync(target);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return true;
    // Linux says EISDIR for a directory; some filesystems say EPERM, as POSIX has it.
    if (code === 'EISDIR') return false;
    if (code === 'EPERM' && fs.lstatSync(target, { throwIfNoEntry: false })?.isDirectory()) return false;
    throw error;
  }
}

async function namesIn(folder: Buffer): Promise<Buffer[]> {
  try {
    return await fs.promises.readdir(folder, 'buffer');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
