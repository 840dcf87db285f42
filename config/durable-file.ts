import { randomBytes } from 'node:crypto';
import fs, { constants } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** Bits of the file's mode; only its owner may read it unless they say otherwise. */
const privateMode = 0o600;

/**
 * Replaces a file so that a reader, and a power cut at any moment, find the old text or the new one whole. When this
 * returns, the new text has reached the disk, and so has its name.
 * @throws {Error} what the file system says; the file is then as it was
 */
export async function writeFileDurably(file: string, text: string, mode = privateMode): Promise<void> {
  const draft = draftOf(file);
  try {
    const handle = await open(draft, 'wx', mode);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(path.dirname(file));
}

/** `writeFileDurably` for programs that do nothing else meanwhile. */
export function writeFileDurablySync(file: string, text: string, mode = privateMode): void {
  const draft = draftOf(file);
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
 * Renames a file whose content may still be in memory alone, once it is on the disk; then brings the name there.
 * For a folder, sync what is in it first.
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

/** Brings the names in a folder to the disk: files that were made, renamed or removed there. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const draftOf = (file: string) => `${file}.${randomBytes(4).toString('hex')}.new`;
