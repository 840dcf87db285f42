import { constants, type Stats } from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { makeFolders } from '../filesystem/make-folders.ts';
import { systemPath } from '../filesystem/path.ts';
import { newStagedName, rememberReplaced } from '../filesystem/staged-names.ts';
import { FileRequestError } from './file-error.ts';

const newFileMode = 0o666;

/**
 * Content on its way to a file: written beside its destination, and moved onto it when it is whole, so that readers see
 * the old file or the new one, and a broken upload leaves no trace.
 */
export class StagedFile {
  readonly file: FileHandle;
  readonly #staged: Buffer;
  #open = true;

  private constructor(file: FileHandle, staged: Buffer) {
    this.file = file;
    this.#staged = staged;
  }

  /** In `folder`, which is made with its parents. @throws errno */
  static async create(folder: string): Promise<StagedFile> {
    const staged = Buffer.from(systemPath(path.join(folder, newStagedName())));
    try {
      return new StagedFile(await fs.open(staged, 'wx', newFileMode), staged);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      await makeFolders(folder);
      return new StagedFile(await fs.open(staged, 'wx', newFileMode), staged);
    }
  }

  /**
   * Puts the content in its place. A file that was there gives it its mode and owner; through a link the file behind
   * it is replaced. @throws errno; {FileRequestError} when something is there that is no regular file
   */
  async moveTo(destination: string): Promise<void> {
    const target = await writtenPath(destination);
    const existing = await regularFileAt(target, destination);
    if (existing) {
      await this.file.chmod(existing.mode & 0o7777);
      const { uid, gid } = await this.file.stat();
      if (uid !== existing.uid || gid !== existing.gid) await this.file.chown(existing.uid, existing.gid);
    }
    this.#open = false;
    await this.file.close();
    if (existing) rememberReplaced(target);
    try {
      await fs.rename(this.#staged, target);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') {
        await makeFolders(path.dirname(destination));
        await fs.rename(this.#staged, target);
      } else if (code === 'EBUSY' || code === 'EXDEV') {
        // A mounted file (a container's /etc/hosts), or staged elsewhere before the path was known.
        await fs.copyFile(this.#staged, target);
        await fs.rm(this.#staged);
      } else throw error;
    }
  }

  /** Leaves nothing behind. Does nothing after `moveTo`. */
  async discard(): Promise<void> {
    if (this.#open) await this.file.close();
    this.#open = false;
    await fs.rm(this.#staged, { force: true });
  }
}

/** Where a program that writes to `destination` would write: links are followed. @throws errno */
export async function writtenPath(destination: string): Promise<Buffer> {
  const given = Buffer.from(systemPath(destination));
  try {
    return await fs.realpath(given, 'buffer');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  // Nothing there yet, or a link to nothing, which is replaced itself.
  return given;
}

async function regularFileAt(target: Buffer, destination: string): Promise<Stats | undefined> {
  const existing = await fs.stat(target).catch((error) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (existing?.isDirectory()) throw new FileRequestError(400, `${destination}: is a directory`);
  if (existing && (existing.mode & constants.S_IFMT) !== constants.S_IFREG) {
    throw new FileRequestError(400, `${destination}: is not a regular file`);
  }
  return existing;
}
