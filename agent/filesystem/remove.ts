import fs from 'node:fs';
import { promisify } from 'node:util';
import { callsMayHang } from './hanging-mounts.ts';
import { systemPath } from './path.ts';

/** How long a removal may block the event loop before other requests get a turn. */
const sliceMs = 8;
/** How often the removal of a directory is tried again if other processes add entries or replace it meanwhile. */
const emptyTries = 5;

/** The system calls of a removal, made directly or on the thread pool. */
interface Calls {
  unlink(file: Buffer): void | Promise<void>;
  rmdir(folder: Buffer): void | Promise<void>;
  open(folder: Buffer, flags: number): number | Promise<number>;
  lstat(file: Buffer): fs.Stats | Promise<fs.Stats>;
}
const atOnce: Calls = { unlink: fs.unlinkSync, rmdir: fs.rmdirSync, open: fs.openSync, lstat: fs.lstatSync };
const { unlink, rmdir, lstat } = fs.promises;
const onThreads: Calls = { unlink, rmdir, open: promisify(fs.open), lstat };

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants;
/** Opens a directory without read access, only to address entries through it. */
const pathOnly = 0o10000000;

/**
 * Removes the entry at `absolutePath` with everything below it. Links are not followed. A missing path is not an error.
 * A directory is kept open while it is emptied, and its entries are addressed through it. So if the directory is moved
 * or replaced by a link meanwhile, nothing else is removed.
 * @throws errno
 */
export async function remove(absolutePath: string): Promise<void> {
  const calls = callsMayHang() ? onThreads : atOnce;
  const given = Buffer.from(systemPath(absolutePath));
  let sliceEnd = performance.now() + sliceMs;
  const turn = async () => {
    if (performance.now() < sliceEnd) return;
    await new Promise(setImmediate);
    sliceEnd = performance.now() + sliceMs;
  };
  const name = given.subarray(given.lastIndexOf('/') + 1);
  const folder = given.subarray(0, given.length - name.length);
  await inFolder(calls, folder, O_DIRECTORY | pathOnly, (held) => removeTree(calls, Buffer.concat([held, name]), turn));
}

async function removeTree(calls: Calls, target: Buffer, turn: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    if (await removeFile(calls, target)) return;
    await inFolder(calls, target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, async (held) => {
      for (const name of await fs.promises.readdir(held, 'buffer')) {
        const entry = Buffer.concat([held, name]);
        if (!(await removeFile(calls, entry))) await removeTree(calls, entry, turn);
        await turn();
      }
    });
    try {
      await calls.rmdir(target);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      // New entries were added meanwhile, or the path is another kind of entry now.
      if ((code !== 'ENOTEMPTY' && code !== 'ENOTDIR') || tries === emptyTries) throw error;
    }
  }
}

/**
 * Calls back with a path (ending in a slash) that always refers to the folder that is now at `folder`. Does nothing
 * when there is none. Without procfs, it is the path itself.
 */
async function inFolder(
  calls: Calls,
  folder: Buffer,
  flags: number,
  work: (held: Buffer) => Promise<void>,
): Promise<void> {
  let fd: number;
  try {
    fd = await calls.open(folder, flags);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || (code === 'ELOOP' && flags & O_NOFOLLOW)) return;
    throw error;
  }
  try {
    const held = Buffer.from(`/proc/self/fd/${fd}/`);
    await work(fs.existsSync(held) ? held : Buffer.concat([folder, Buffer.from('/')]));
  } finally {
    fs.closeSync(fd);
  }
}

/** True when the file was removed. False when it is a directory. */
async function removeFile(calls: Calls, target: Buffer): Promise<boolean> {
  try {
    await calls.unlink(target);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return true;
    // Linux returns EISDIR for a directory; some file systems return EPERM, as in POSIX.
    if (code === 'EISDIR') return false;
    if (code === 'EPERM' && (await calls.lstat(target)).isDirectory()) return false;
    throw error;
  }
}
