import fs from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Extract, extract, type Header } from 'tar-stream';
import { makeFolders } from '../filesystem/make-folders.ts';
import { nameOfBytes, systemPath } from '../filesystem/path.ts';
import { newStagedName, rememberReplaced } from '../filesystem/staged-names.ts';
import { isSystemError } from '../rpc/errors.ts';
import { fileCalls } from './file-calls.ts';
import { FileRequestError, replyFileError, toFileError } from './file-error.ts';
import { tarDrained } from './tar-drained.ts';

const blockBytes = 512;
const maxPathBytes = 16 * 1024;
/** The latest time of an entry, in seconds since 1970. Later ones are not set. */
const maxSeconds = 2 ** 40;

const write = promisify(fs.write);

/**
 * `POST /archive?path=…`: unpacks a tar into a folder, which is made with its parents. Each file is written beside its
 * place and moved there when it is complete. Replies with the numbers of entries and bytes.
 */
export async function serveUnpack(req: IncomingMessage, res: ServerResponse, folder: string): Promise<void> {
  try {
    const isThere = await fs.promises.lstat(systemPath(folder)).then(
      () => true,
      () => false,
    );
    await makeFolders(folder).catch((error) => {
      throw error.code === 'EEXIST' ? new FileRequestError(400, `${folder}: not a directory`) : error;
    });
    const unpacked = new UnpackedArchive(folder, !isThere);
    const tar = extract({ filenameEncoding: 'latin1' } as object);
    const fed = feed(req, tar);
    fed.catch((error) => tar.destroy(error));
    try {
      for await (const entry of tar) {
        await unpacked.add(entry.header as TarHeader, entry as AsyncIterable<Buffer>);
        // The next entry comes when the content of this one is read.
        entry.resume();
      }
    } catch (error) {
      tar.destroy();
      throw error instanceof FileRequestError || isSystemError(error)
        ? error
        : new FileRequestError(400, `not a tar: ${(error as Error).message}`);
    }
    await fed;
    await unpacked.leaveFolders();
    const body = JSON.stringify(unpacked.counts);
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
  } catch (error) {
    replyFileError(req, res, toFileError(error));
  }
}

/**
 * Passes the body to the parser as fast as that takes it.
 * @throws {FileRequestError} if the client leaves, or the archive has no end: its sender may have died
 */
async function feed(req: IncomingMessage, tar: Extract): Promise<void> {
  let tail = Buffer.alloc(0);
  try {
    for await (const chunk of req.iterator({ destroyOnReturn: false })) {
      if (tar.destroyed || tar.destroying) return;
      tail =
        chunk.length < blockBytes ? Buffer.concat([tail, chunk]).subarray(-blockBytes) : chunk.subarray(-blockBytes);
      if (!tar.write(chunk)) await tarDrained(tar);
    }
  } catch {
    throw new FileRequestError(400, 'the client left');
  }
  if (!tail.equals(Buffer.alloc(blockBytes))) throw new FileRequestError(400, 'the archive has no end');
  tar.end(null);
}

interface TarHeader extends Omit<Header, 'type' | 'pax'> {
  type: Header['type'] | null;
  pax: Record<string, string> | null;
}

/** A folder of the archive that was made and may still get entries. They change its time. */
interface OpenFolder {
  /** Below the root of the archive, with a slash at its end. */
  below: string;
  target: string;
  header: TarHeader;
}

class UnpackedArchive {
  readonly counts = { files: 0, folders: 0, links: 0, skipped: 0, bytes: 0 };
  readonly #root: string;
  /** Whether the root was made for the archive. */
  readonly #isNew: boolean;
  /** Innermost last. */
  #open: OpenFolder[] = [];

  constructor(root: string, isNew: boolean) {
    this.#root = root;
    this.#isNew = isNew;
  }

  /** Makes an entry. @throws {FileRequestError}, errno */
  async add(header: TarHeader, content: AsyncIterable<Buffer>): Promise<void> {
    const below = pathBelow(nameOf(header.name, header.pax?.path));
    const target = path.join(this.#root, below);
    await this.leaveFolders(below);
    try {
      if (header.type === 'directory') await this.#folder(below, target, header);
      else if (header.type === 'file' || header.type === 'contiguous-file') await this.#file(target, header, content);
      else if (header.type === 'symlink' || header.type === 'link') await this.#link(target, header);
      else this.counts.skipped += 1;
    } catch (error) {
      throw toFileError(error, target);
    }
  }

  /** Sets modes and times of the folders that do not contain `below`. Without one: of all. */
  async leaveFolders(below?: string): Promise<void> {
    for (let last = this.#open.at(-1); last; last = this.#open.at(-1)) {
      if (below?.startsWith(last.below)) return;
      this.#open.pop();
      await fs.promises.chmod(systemPath(last.target), last.header.mode & 0o7777);
      const time = timeOf(last.header);
      if (time !== undefined) await fs.promises.utimes(systemPath(last.target), time, time);
    }
  }

  /** A folder that exists keeps its mode: it may be `/tmp`. */
  async #folder(below: string, target: string, header: TarHeader): Promise<void> {
    if (below === '') {
      if (this.#isNew && this.#open[0]?.below !== '') this.#open.unshift({ below: '', target, header });
      return;
    }
    try {
      await this.#inFolder(target, () => fs.promises.mkdir(systemPath(target), 0o700));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      if (!(await fs.promises.stat(systemPath(target))).isDirectory()) {
        throw new FileRequestError(400, `${target}: exists and is not a directory`);
      }
      return;
    }
    this.#open.push({ below: `${below}/`, target, header });
    this.counts.folders += 1;
  }

  async #file(target: string, header: TarHeader, content: AsyncIterable<Buffer>): Promise<void> {
    const calls = fileCalls();
    const staged = systemPath(path.join(path.dirname(target), newStagedName()));
    const fd = await this.#inFolder(target, () => calls.open(staged, 'wx', 0o600));
    let isOpen = true;
    try {
      for await (const chunk of content) {
        let rest = chunk;
        // A disk that fills up accepts a part. Writing the rest then fails with the error.
        while (rest.length > 0) rest = rest.subarray((await write(fd, rest)).bytesWritten);
        this.counts.bytes += chunk.length;
      }
      const replaced = await this.#replaced(target);
      if (replaced) await calls.fchown(fd, replaced.uid, replaced.gid);
      // After fchown, because that clears the set-id bits.
      await calls.fchmod(fd, header.mode & 0o7777);
      const time = timeOf(header);
      if (time !== undefined) await calls.futimes(fd, time, time);
      isOpen = false;
      await calls.close(fd);
      await this.#place(staged, target, replaced !== undefined);
      this.counts.files += 1;
    } catch (error) {
      if (isOpen) await calls.close(fd);
      await fs.promises.rm(staged, { force: true });
      throw error;
    }
  }

  async #link(target: string, header: TarHeader): Promise<void> {
    const linkname = nameOf(header.linkname, header.pax?.linkpath);
    if (linkname === '' || linkname.includes('\0')) throw new FileRequestError(400, `${target}: a link to no name`);
    const staged = systemPath(path.join(path.dirname(target), newStagedName()));
    await this.#replaced(target);
    await this.#inFolder(target, () =>
      header.type === 'symlink'
        ? fs.promises.symlink(systemPath(linkname), staged)
        : fs.promises.link(systemPath(path.join(this.#root, pathBelow(linkname))), staged),
    );
    try {
      const time = timeOf(header);
      if (time !== undefined && header.type === 'symlink') await fs.promises.lutimes(staged, time, time);
      await this.#place(staged, target, false);
      this.counts.links += 1;
    } finally {
      // rename(2) does nothing if both names are the same file already.
      await fs.promises.rm(staged, { force: true });
    }
  }

  /** Runs `make`, and makes the missing folder of `target` if there is none. */
  async #inFolder<Made>(target: string, make: () => Made | Promise<Made>): Promise<Made> {
    try {
      return await make();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      await makeFolders(path.dirname(target));
      return await make();
    }
  }

  /** The regular file that will be replaced. Its owner stays. @throws {FileRequestError} for folders and devices */
  async #replaced(target: string): Promise<fs.Stats | undefined> {
    try {
      const found = await fileCalls().lstat(systemPath(target));
      if (found.isDirectory()) throw new FileRequestError(400, `${target}: is a directory`);
      if (found.isSymbolicLink()) return undefined;
      if (!found.isFile()) throw new FileRequestError(400, `${target}: is not a regular file`);
      return found;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return undefined;
    }
  }

  async #place(staged: string | Buffer, target: string, isReplaced: boolean): Promise<void> {
    if (isReplaced) {
      // Watchers know real paths.
      const folder = await fs.promises.realpath(systemPath(path.dirname(target)), 'buffer');
      rememberReplaced(Buffer.from(systemPath(path.join(nameOfBytes(folder), path.basename(target)))));
    }
    try {
      await fileCalls().rename(staged, systemPath(target));
    } catch (error) {
      // The target is a mounted file, such as a container's /etc/hosts.
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
      await fs.promises.copyFile(staged, systemPath(target));
      await fs.promises.rm(staged);
    }
  }
}

/** A name as its sender wrote it. The library reads names of plain headers as Latin-1, which keeps every byte. */
function nameOf(plain: string | null, extended: string | undefined): string {
  return extended ?? nameOfBytes(Buffer.from(plain ?? '', 'latin1'));
}

/**
 * The path of an entry below the root of the archive, without `.` and double slashes. Empty for the root itself.
 * @throws {FileRequestError} 400 for a path that leads out
 */
function pathBelow(name: string): string {
  if (Buffer.byteLength(name) > maxPathBytes) throw new FileRequestError(400, 'path too long');
  const names = name.split('/').filter((each) => each !== '' && each !== '.');
  if (name.startsWith('/') || name.includes('\0') || names.includes('..')) {
    throw new FileRequestError(400, `${JSON.stringify(name)}: no path below the folder`);
  }
  return names.join('/');
}

/** The time of an entry. Node takes a negative number for now. Undefined: no time that can be set. */
function timeOf({ mtime, pax }: TarHeader): number | Date | undefined {
  const seconds = pax?.mtime === undefined ? mtime.getTime() / 1000 : Number(pax.mtime);
  if (!(Math.abs(seconds) <= maxSeconds)) return undefined;
  return seconds < 0 ? new Date(seconds * 1000) : seconds;
}
