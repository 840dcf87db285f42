import fs, { constants, type Stats } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { type Pack, pack } from 'tar-stream';
import { nameOfBytes, systemPath } from '../filesystem/path.ts';
import { writeThrough } from '../http/response-flow.ts';
import { fileCalls } from './file-calls.ts';
import { FileRequestError, replyFileError, toFileError } from './file-error.ts';
import { tarDrained } from './tar-drained.ts';

/** Files up to this size are read before their header is written, so that they may change meanwhile. */
const smallBytes = 64 * 1024;
/** The size of one piece of a larger file. */
const pieceBytes = 256 * 1024;
/** The number of bytes that are gathered for one write. */
const writeBytes = 64 * 1024;
/** A directory of this size contains a million names or more, and is not read. */
const maxDirectoryBytes = 32 * 1024 * 1024;
/** The largest time that the plain header of the library holds. */
const maxPlainSeconds = 2 ** 31 - 1;
/** File systems that the kernel makes up: proc, sysfs, devpts, cgroup2, debugfs, tracefs, securityfs. */
const madeUpTypes = new Set([0x9fa0, 0x62656572, 0x1cd1, 0x63677270, 0x64626720, 0x74726163, 0x73636673]);

const read = promisify(fs.read);

/**
 * `GET /archive?path=…`: a folder as a tar, with modes, owners, times and symbolic links. The first entry is `./`.
 * Sockets, pipes, devices, and what is below `/proc` and the like are left out; the entry of their folder has their
 * number as `SANDBOX.skipped`. After an error the reply breaks off, and its last entry has the text as `SANDBOX.error`.
 */
export async function serveFolder(req: IncomingMessage, res: ServerResponse, folder: string): Promise<void> {
  const packed = new PackedFolder(res);
  try {
    const stat = await fs.promises.stat(systemPath(folder));
    if (!stat.isDirectory()) throw new FileRequestError(400, `${folder}: not a directory`);
    await packed.send(folder === '/' ? '' : folder, stat);
  } catch (error) {
    const known = toFileError(error, folder);
    if (!res.headersSent) return replyFileError(req, res, known);
    await packed.tell(known.message).catch(() => undefined);
    res.destroy();
  } finally {
    packed.destroy();
  }
}

/** A directory whose entries are being packed. */
interface OpenFolder {
  path: string;
  /** Its name in the tar, with a slash at its end. Empty for the root. */
  name: string;
  device: number;
  children: Buffer[];
  next: number;
}

/** The reply with a tar of one folder. At most a piece of a file, and the names of the open folders, are in memory. */
class PackedFolder {
  readonly #res: ServerResponse;
  readonly #pack: Pack = pack();
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #isInsideFile = false;

  constructor(res: ServerResponse) {
    this.#res = res;
    this.#pack.on('data', (bytes) => {
      this.#gathered.push(bytes as Buffer);
      this.#gatheredBytes += (bytes as Buffer).length;
    });
    this.#pack.on('error', () => {
      // The caller of the failing method gets the error.
    });
  }

  /** Packs depth first. Resolves when the reply is complete, or the client is gone. @throws errno */
  async send(root: string, stat: Stats): Promise<void> {
    const open = [await this.#folder(root, './', stat, stat.dev)];
    for (let level = open.at(-1); level && !this.#res.destroyed; level = open.at(-1)) {
      const child = level.children[level.next];
      level.next += 1;
      if (!child) {
        open.pop();
        continue;
      }
      const name = nameOfBytes(child);
      const found = await this.#entry(`${level.path}/${name}`, `${level.name}${name}`, level.device);
      if (found) open.push(found);
      if (this.#gatheredBytes >= writeBytes) await this.#flush();
    }
    const ended = new Promise<void>((resolve) => this.#pack.once('end', () => resolve()));
    this.#pack.finalize();
    await ended;
    await this.#flush();
    this.#res.end();
  }

  /** Adds an entry that tells why the reply breaks off. It has no place within the content of a file. */
  async tell(message: string): Promise<void> {
    if (this.#isInsideFile) return;
    await this.#header({ name: './', type: 'directory', pax: { 'SANDBOX.error': message } });
    await this.#flush();
  }

  destroy(): void {
    this.#pack.destroy();
  }

  /** Packs the entry at a path, unless it has vanished. Returns a directory, whose content is still to be packed. */
  async #entry(path: string, name: string, device: number): Promise<OpenFolder | undefined> {
    try {
      const target = systemPath(path);
      const stat = await fileCalls().lstat(target);
      if (stat.isDirectory()) return await this.#folder(path, `${name}/`, stat, device);
      if (stat.isSymbolicLink()) {
        const linkname = nameOfBytes(await fs.promises.readlink(target, 'buffer'));
        await this.#header({ ...fields(name, stat), type: 'symlink', linkname });
      } else if (stat.isFile()) await this.#file(target, name);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The entry was removed or replaced between two calls.
      if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined;
      throw toFileError(error, path);
    }
    return undefined;
  }

  async #folder(path: string, name: string, stat: Stats, deviceAbove: number): Promise<OpenFolder> {
    const target = systemPath(path === '' ? '/' : path);
    let children: Buffer[] = [];
    let skipped = 0;
    if (stat.dev !== deviceAbove && madeUpTypes.has((await fs.promises.statfs(target)).type)) skipped = 1;
    else {
      if (stat.size > maxDirectoryBytes) throw new FileRequestError(400, `${path}: too many entries`);
      const found = await fs.promises.readdir(target, { withFileTypes: true, encoding: 'buffer' });
      const kept = found.filter((each) => each.isFile() || each.isDirectory() || each.isSymbolicLink());
      skipped = found.length - kept.length;
      children = kept.map((each) => each.name);
    }
    if (!this.#res.headersSent) this.#res.writeHead(200, { 'content-type': 'application/x-tar' });
    const { pax, ...rest } = fields(name, stat);
    await this.#header({
      ...rest,
      type: 'directory',
      pax: skipped > 0 ? { ...pax, 'SANDBOX.skipped': String(skipped) } : pax,
    });
    return { path, name: name === './' ? '' : name, device: stat.dev, children, next: 0 };
  }

  async #file(target: string | Buffer, name: string): Promise<void> {
    const calls = fileCalls();
    // Another program may have put a pipe or a link there.
    const fd = await calls.open(target, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    try {
      const stat = await calls.fstat(fd);
      if (!stat.isFile()) return;
      if (stat.size > smallBytes) return await this.#largeFile(fd, { ...fields(name, stat), size: stat.size });
      const content = Buffer.allocUnsafe(stat.size);
      const { bytesRead } = stat.size === 0 ? { bytesRead: 0 } : await read(fd, content, 0, content.length, 0);
      await new Promise<void>((resolve, reject) => {
        this.#pack.entry(fields(name, stat), content.subarray(0, bytesRead), (error) =>
          error ? reject(error) : resolve(),
        );
      });
    } finally {
      await calls.close(fd);
    }
  }

  /** @throws {FileRequestError} if the file became shorter, because its header has its size */
  async #largeFile(fd: number, header: Header & { size: number }): Promise<void> {
    this.#isInsideFile = true;
    const sink = this.#pack.entry(header);
    const ended = new Promise<void>((resolve, reject) => sink.once('finish', () => resolve()).once('error', reject));
    ended.catch(() => undefined);
    for (let at = 0; at < header.size && !this.#res.destroyed; ) {
      const piece = Buffer.allocUnsafe(Math.min(pieceBytes, header.size - at));
      const { bytesRead } = await read(fd, piece, 0, piece.length, at);
      if (bytesRead === 0) throw new FileRequestError(400, `${header.name}: became shorter while it was read`);
      at += bytesRead;
      if (!sink.write(piece.subarray(0, bytesRead))) await tarDrained(sink);
      await this.#flush();
    }
    if (this.#res.destroyed) return;
    sink.end(null);
    await ended;
    this.#isInsideFile = false;
  }

  #header(header: Header): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pack.entry(header, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Sends what was gathered. Other requests get a turn. */
  async #flush(): Promise<void> {
    const pieces = this.#gathered;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    if (pieces.length > 0) await writeThrough(this.#res, pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces));
    await new Promise(setImmediate);
  }
}

type Header = Parameters<Pack['entry']>[0];

/** The fields of an entry. The mode keeps its type, because the library takes a mode of 0 for a missing one. */
function fields(name: string, { mode, uid, gid, mtimeMs }: Stats) {
  const seconds = Math.min(Math.max(Math.floor(mtimeMs / 1000), 0), maxPlainSeconds);
  const pax: Record<string, string> = seconds * 1000 === mtimeMs ? {} : { mtime: (mtimeMs / 1000).toFixed(6) };
  return { name, mode, uid, gid, mtime: new Date(seconds * 1000), pax: seconds * 1000 === mtimeMs ? undefined : pax };
}
