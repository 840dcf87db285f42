import fs from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { namesOf } from './archive-names.ts';
import type { Progress } from './archive-writer.ts';
import { connectionError, SandboxError } from './errors.ts';
import { placeLocal, writeNewFile } from './local-file.ts';
import { extract, type Header } from './tar.ts';

const blockBytes = 512;
const maxNameBytes = 16 * 1024;
/** The latest time of an entry, in seconds since 1970. Later ones are not set. */
const maxSeconds = 2 ** 40;

interface TarHeader extends Omit<Header, 'type' | 'pax'> {
  type: Header['type'] | null;
  pax: Record<string, string> | null;
}

/**
 * Unpacks a tar from a sandbox into a local folder, which is made. The tar is hostile: nothing outside of the folder is
 * written, also not through links. Each file gets its name when it is complete.
 * @throws {SandboxError} `bad_reply`: it is no tar, or an entry could lead out; `connection_failed`: it broke off.
 * Errors of the local files
 */
export async function readArchive(
  response: IncomingMessage,
  folder: string,
  progress: Progress,
  onProgress: ((progress: Progress) => void) | undefined,
): Promise<void> {
  const target = await LocalTree.at(folder);
  const tar = extract();
  const fed = feed(response, tar);
  fed.catch((error) => tar.destroy(error));
  let isLocal = false;
  /** The exceptions of `onProgress`, which are the caller's own. */
  const ofCaller: unknown[] = [];
  const tell = (name: string) => {
    try {
      onProgress?.({ ...progress, name });
    } catch (error) {
      ofCaller.push(error);
      throw error;
    }
  };
  try {
    for await (const entry of tar) {
      const header = entry.header as TarHeader;
      const told = header.pax?.['SANDBOX.error'];
      if (told !== undefined) throw new SandboxError('copy_failed', told);
      const content = async function* () {
        for await (const piece of entry as AsyncIterable<Uint8Array>) {
          yield piece;
          progress.bytes += piece.length;
          tell(header.name);
        }
      };
      isLocal = true;
      const kind = await target.add(header, content());
      if (kind) progress[kind] += 1;
      isLocal = false;
      const skipped = Number(header.pax?.['SANDBOX.skipped'] ?? 0);
      if (skipped > 0) progress.skipped += skipped;
      tell(header.name);
      // The next entry comes when the content of this one is read.
      entry.resume();
    }
    await fed;
    await target.leaveFolders();
  } catch (error) {
    tar.destroy();
    response.destroy();
    // An error of the parser reaches the reader of an entry's content, too.
    const { code } = error as NodeJS.ErrnoException;
    if (ofCaller.length > 0) throw ofCaller[0];
    if (error instanceof SandboxError || (isLocal && code !== undefined)) throw error;
    throw new SandboxError('bad_reply', `The sandbox sent no tar: ${(error as Error).message}`, { cause: error });
  }
}

/** Passes the reply to the parser as fast as that takes it. @throws {SandboxError} if it has no end */
async function feed(response: IncomingMessage, tar: ReturnType<typeof extract>): Promise<void> {
  let tail = Buffer.alloc(0);
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (tar.destroyed || tar.destroying) return;
      tail = Buffer.concat([tail, chunk.subarray(-blockBytes)]).subarray(-blockBytes);
      if (!tar.write(chunk)) await drained(tar);
    }
  } catch (error) {
    throw connectionError('The copy broke off', error as Error);
  }
  if (!tail.equals(Buffer.alloc(blockBytes)))
    throw new SandboxError('bad_reply', 'The archive of the sandbox has no end');
  tar.end(null);
}

function drained(tar: ReturnType<typeof extract>): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      tar.off('drain', done).off('close', done);
      resolve();
    };
    tar.on('drain', done).on('close', done);
  });
}

/** A folder that was made and may still get entries. They change its time. */
interface OpenFolder {
  names: string[];
  header: TarHeader;
}

type Kind = 'files' | 'folders' | 'links' | 'skipped';

/** The local folder that an archive is unpacked into. */
class LocalTree {
  readonly #root: string;
  /** Whether the root was made for the archive. */
  readonly #isNew: boolean;
  /** The names of the folder that was checked last. It stays a folder: only entries of the archive change the tree. */
  #checked: string[] = [];
  /** Innermost last. */
  #open: OpenFolder[] = [];

  private constructor(root: string, isNew: boolean) {
    this.#root = root;
    this.#isNew = isNew;
  }

  static async at(folder: string): Promise<LocalTree> {
    return new LocalTree(folder, (await fs.mkdir(folder, { recursive: true })) !== undefined);
  }

  /** Makes an entry. Returns its kind, or null for the root. */
  async add(header: TarHeader, content: AsyncIterable<Uint8Array>): Promise<Kind | null> {
    if (Buffer.byteLength(header.name) > maxNameBytes)
      throw new SandboxError('bad_reply', 'The sandbox sent a name that is too long');
    const names = namesOf(header.name);
    await this.leaveFolders(names);
    if (header.type === 'directory') {
      if (names.length === 0) {
        if (this.#isNew) this.#open.unshift({ names, header });
        return null;
      }
      if (await this.#folder(names, (header.mode & 0o777) | 0o700)) this.#open.push({ names, header });
      return 'folders';
    }
    const isLink = header.type === 'symlink';
    if (!isLink && header.type !== 'file' && header.type !== 'contiguous-file') return 'skipped';
    const name = names.at(-1);
    if (name === undefined) throw new SandboxError('bad_reply', 'The sandbox sent a file without a name');
    await this.#folder(names.slice(0, -1));
    const modified = timeOf(header);
    await placeLocal(path.join(this.#root, ...names), async (staged) => {
      if (!isLink) return writeNewFile(staged, content, { mode: header.mode & 0o777, modified });
      const linkname = header.linkname ?? '';
      if (linkname === '' || linkname.includes('\0'))
        throw new SandboxError('bad_reply', 'The sandbox sent a link to no name');
      await fs.symlink(linkname, staged);
      if (modified !== undefined) await fs.lutimes(staged, modified, modified);
    });
    return isLink ? 'links' : 'files';
  }

  /** Sets modes and times of the folders that do not contain `names`. Without: of all. */
  async leaveFolders(names?: readonly string[]): Promise<void> {
    for (let last = this.#open.at(-1); last; last = this.#open.at(-1)) {
      if (names && names.length > last.names.length && last.names.every((name, at) => names[at] === name)) return;
      this.#open.pop();
      const local = path.join(this.#root, ...last.names);
      // The mode that it was made with is limited by the umask.
      const made = (await fs.lstat(local)).mode & 0o777;
      const mode = made & last.header.mode;
      if (mode !== made) await fs.chmod(local, mode);
      const modified = timeOf(last.header);
      if (modified !== undefined) await fs.utimes(local, modified, modified);
    }
  }

  /** Makes a folder and those above it, and follows no link. Returns whether the folder is new. */
  async #folder(names: string[], mode = 0o777): Promise<boolean> {
    let isNew = false;
    let common = 0;
    while (common < names.length && this.#checked[common] === names[common]) common += 1;
    for (let count = common + 1; count <= names.length; count++) {
      const local = path.join(this.#root, ...names.slice(0, count));
      isNew = await makeRealFolder(local, count === names.length ? mode : 0o777);
    }
    this.#checked = names;
    return isNew;
  }
}

async function makeRealFolder(local: string, mode: number): Promise<boolean> {
  try {
    await fs.mkdir(local, mode);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const found = await fs.lstat(local);
  if (found.isSymbolicLink())
    throw new SandboxError('copy_failed', `${local} is a link, which could lead out of the target`);
  if (!found.isDirectory()) throw new SandboxError('copy_failed', `${local} exists and is not a folder`);
  return false;
}

/** The time of an entry. Node takes a negative number for now. Undefined: no time that can be set. */
function timeOf({ mtime, pax }: TarHeader): number | Date | undefined {
  const seconds = pax?.mtime === undefined ? mtime.getTime() / 1000 : Number(pax.mtime);
  if (!(Math.abs(seconds) <= maxSeconds)) return undefined;
  return seconds < 0 ? new Date(seconds * 1000) : seconds;
}
