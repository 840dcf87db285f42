import { constants, type Stats } from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { makeFolders } from '../filesystem/make-folders.ts';
import { nameOfBytes, systemPath } from '../filesystem/path.ts';
import { newStagedName, rememberReplaced } from '../filesystem/staged-names.ts';
import type { Owner } from '../filesystem/view.ts';
import { systemError } from '../native/libc.ts';
import { FileRequestError } from './file-error.ts';

const newFileMode = 0o666;
/** The limit of the kernel. */
const maxLinks = 40;

/**
 * Content on its way to a file. It is written beside its destination, and moved there when it is complete. So readers
 * see the old file or the new one, and a failed upload leaves nothing behind.
 */
export class StagedFile {
  readonly file: FileHandle;
  readonly #staged: Buffer;
  #open = true;

  readonly #owner: Owner | undefined;

  private constructor(file: FileHandle, staged: Buffer, owner: Owner | undefined) {
    this.file = file;
    this.#staged = staged;
    this.#owner = owner;
  }

  /**
   * Creates the file in `folder`, which is made with its parents.
   * @param owner the owner of the file and of the made folders. Undefined: the agent's own user, and for a file that
   * replaces another one, that one's owner
   * @throws errno
   */
  static async create(folder: string, owner?: Owner): Promise<StagedFile> {
    const staged = Buffer.from(systemPath(path.join(folder, newStagedName())));
    let file: FileHandle;
    try {
      file = await fs.open(staged, 'wx', newFileMode);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      await makeFolders(folder, owner);
      file = await fs.open(staged, 'wx', newFileMode);
    }
    return new StagedFile(file, staged, owner);
  }

  /**
   * Moves the content to its place. It gets the mode of the file that it replaces, and its owner unless it has one. If the destination is a
   * link, the target of the link is replaced. @throws errno; {FileRequestError} when the destination exists and is not
   * a regular file
   */
  async moveTo(destination: string): Promise<void> {
    const target = await writtenPath(destination);
    const existing = await regularFileAt(target, destination);
    if (existing) {
      await this.file.chmod(existing.mode & 0o7777);
    }
    const owner = this.#owner ?? existing;
    if (owner) {
      const { uid, gid } = await this.file.stat();
      if (uid !== owner.uid || gid !== owner.gid) await this.file.chown(owner.uid, owner.gid);
    }
    this.#open = false;
    await this.file.close();
    if (existing) rememberReplaced(target);
    try {
      await fs.rename(this.#staged, target);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') {
        await makeFolders(path.dirname(nameOfBytes(target)), this.#owner);
        await fs.rename(this.#staged, target);
      } else if (code === 'EBUSY' || code === 'EXDEV') {
        // The target is a mounted file (a container's /etc/hosts), or the content was staged elsewhere because its path
        // was unknown.
        await fs.copyFile(this.#staged, target);
        await fs.rm(this.#staged);
      } else throw error;
    }
  }

  /** Removes the staged file. Does nothing after `moveTo`. */
  async discard(): Promise<void> {
    if (this.#open) await this.file.close();
    this.#open = false;
    await fs.rm(this.#staged, { force: true });
  }
}

/**
 * The path that a program that writes to `destination` would write: links are followed, also to a file that does not
 * exist yet.
 * @throws errno
 */
export async function writtenPath(destination: string): Promise<Buffer> {
  let given = destination;
  for (let links = 0; links < maxLinks; links += 1) {
    const name = systemPath(given);
    try {
      return await fs.realpath(name, 'buffer');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    const link = await fs.readlink(name, 'buffer').catch(() => undefined);
    if (!link) return Buffer.from(name);
    const folder = await fs.realpath(systemPath(path.dirname(given)), 'buffer');
    given = path.resolve(nameOfBytes(folder), nameOfBytes(link));
  }
  throw systemError('realpath', os.constants.errno.ELOOP, destination);
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
