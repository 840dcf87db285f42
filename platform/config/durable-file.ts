import { randomBytes } from 'node:crypto';
import fs, { constants } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** Mode of the file. By default only its owner may read it. */
const privateMode = 0o600;

/**
 * Replaces a file so that a reader, and a system after a power cut, finds either the old text or the whole new one. On
 * return, text and name have reached the disk.
 * @throws {Error} of the file system; then the file is unchanged
 */
export async function writeFileDurably(file: string, text: string, mode = privateMode): Promise<void> {
  await replace(file, text, mode, (handle) => handle.sync());
  await syncFolder(path.dirname(file));
}

/**
 * Replaces a file so that a reader finds either the old text or the whole new one. A power cut may bring the old text
 * back, or damage the file.
 */
export function replaceFile(file: string, text: string, mode = privateMode): Promise<void> {
  return replace(file, text, mode, async () => {});
}

async function replace(
  file: string,
  text: string,
  mode: number,
  afterWrite: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  const draft = draftPath(file);
  try {
    const handle = await open(draft, 'wx', mode);
    try {
      await handle.writeFile(text);
      await afterWrite(handle);
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Syncs the content of a file. */
export async function syncFile(file: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** `writeFileDurably` for programs that need no concurrency meanwhile. */
export function writeFileDurablySync(file: string, text: string, mode = privateMode): void {
  const draft = draftPath(file);
  try {
    const descriptor = fs.openSync(draft, 'wx', mode);
    try {
      fs.writeFileSync(descriptor, text);
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    fs.renameSync(draft, file);
  } catch (error) {
    fs.rmSync(draft, { force: true });
    throw error;
  }
  const folder = fs.openSync(path.dirname(file), constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fs.fsyncSync(folder);
  } finally {
    fs.closeSync(folder);
  }
}

/**
 * Renames a file after its content has reached the disk, then syncs the new name. For a folder, sync its contents
 * before.
 */
export async function renameDurably(from: string, to: string): Promise<void> {
  const handle = await open(from, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(from, to);
  await syncFolder(path.dirname(to));
}

/** Syncs the names in a folder: files that were made, renamed or removed there. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const draftPath = (file: string) => `${file}.${randomBytes(4).toString('hex')}.new`;
