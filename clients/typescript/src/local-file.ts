import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

/**
 * Runs `make` with a name beside `target` and moves what it made to `target`, so that nothing incomplete has its name.
 * After an error nothing is left.
 */
export async function placeLocal(target: string, make: (staged: string) => Promise<void>): Promise<void> {
  const staged = path.join(path.dirname(target), `.sandbox-platform-${randomUUID()}`);
  try {
    await make(staged);
    await fs.rename(staged, target);
  } catch (error) {
    await fs.rm(staged, { force: true });
    throw error;
  }
}

/** What the new file gets. The umask of this process limits the mode. */
export interface LocalFileFacts {
  mode: number;
  /** Seconds since 1970, or a time. Undefined: now. */
  modified: number | Date | undefined;
}

/** Writes a new file. @throws errno, if it exists */
export async function writeNewFile(
  target: string,
  content: AsyncIterable<Uint8Array>,
  { mode, modified }: LocalFileFacts,
): Promise<void> {
  const file = await fs.open(target, 'wx', mode);
  try {
    for await (const piece of content) await writeAll(file, piece);
    if (modified !== undefined) await file.utimes(modified, modified);
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let rest = piece; rest.length > 0; ) rest = rest.subarray((await file.write(rest)).bytesWritten);
}

/**
 * Writes to a path that the user gave: the whole file replaces what is there. Links are followed, and devices and pipes
 * are written to.
 */
export async function writeGivenFile(
  target: string,
  content: AsyncIterable<Uint8Array>,
  facts: Partial<LocalFileFacts> = {},
): Promise<void> {
  const real = await fs.realpath(target).catch(() => target);
  const found = await fs.stat(real).catch(() => null);
  if (found && !found.isFile()) return pipeline(content, createWriteStream(real));
  const mode = facts.mode ?? (found ? found.mode & 0o777 : 0o666);
  await placeLocal(real, (staged) => writeNewFile(staged, content, { mode, modified: facts.modified }));
}
