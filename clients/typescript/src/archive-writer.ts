import type { Stats } from 'node:fs';
import fs from 'node:fs/promises';
import path from 'node:path';
import { type Header, pack } from './tar.ts';

/** A local file changed while it was copied. */
export class FileChangedError extends Error {
  override name = 'FileChangedError';
}

/** An entry of an archive for the sandbox. `name` has slashes and begins below the folder of the archive. */
export type SentEntry =
  | { name: string; local: string }
  | { name: string; data: string | Uint8Array; mode?: number | undefined };

/** The progress of a copy after each entry. */
export interface Progress {
  /** The path of the entry below the copied folder. */
  name: string;
  files: number;
  folders: number;
  links: number;
  /** Sockets, pipes and devices, which are not copied. */
  skipped: number;
  /** The content of the files. */
  bytes: number;
}

/** The number of bytes that are gathered for one write. */
const writeBytes = 64 * 1024;
const pieceBytes = 256 * 1024;
/** The largest time that the plain header of the library holds. */
const maxPlainSeconds = 2 ** 31 - 1;

/** A local folder and everything below it, depth first, folders before their content. Links are not followed. */
export async function* walkFolder(folder: string, name = './'): AsyncGenerator<{ name: string; local: string }, void> {
  yield { name, local: folder };
  for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
    const below = { name: `${name === './' ? '' : name}${entry.name}`, local: path.join(folder, entry.name) };
    if (entry.isDirectory()) yield* walkFolder(below.local, `${below.name}/`);
    else yield below;
  }
}

/** The bytes of a tar. The entries on this machine are read while it is sent. @throws errors of the local files */
export async function* writeArchive(
  entries: Iterable<SentEntry> | AsyncIterable<SentEntry>,
  progress: Progress,
  onProgress: ((progress: Progress) => void) | undefined,
): AsyncGenerator<Uint8Array, void> {
  const tar = pack();
  let gathered: Buffer[] = [];
  let gatheredBytes = 0;
  tar.on('data', (bytes) => {
    gathered.push(bytes as Buffer);
    gatheredBytes += (bytes as Buffer).length;
  });
  // The caller of a failing method gets the error.
  tar.on('error', () => undefined);
  const take = () => {
    const taken = Buffer.concat(gathered);
    gathered = [];
    gatheredBytes = 0;
    return taken;
  };
  const add = (header: Parameters<typeof tar.entry>[0], content?: Uint8Array) =>
    new Promise<void>((resolve, reject) => {
      const done = (error?: Error | null) => (error ? reject(error) : resolve());
      if (content) tar.entry(header, Buffer.from(content.buffer, content.byteOffset, content.byteLength), done);
      else tar.entry(header, done);
    });
  try {
    for await (const entry of entries) {
      if ('data' in entry) {
        const data = typeof entry.data === 'string' ? Buffer.from(entry.data) : entry.data;
        const mode = 0o100000 | (entry.mode ?? 0o644);
        await add({ name: entry.name, mode, size: data.length, mtime: new Date() }, data);
        progress.files += 1;
        progress.bytes += data.length;
      } else {
        const stat = await statOf(entry.local);
        if (!stat) continue;
        const header = headerOf(entry.name, stat);
        if (stat.isDirectory()) {
          await add({ ...header, type: 'directory' });
          if (entry.name !== './') progress.folders += 1;
        } else if (stat.isSymbolicLink()) {
          await add({ ...header, type: 'symlink', linkname: await fs.readlink(entry.local) });
          progress.links += 1;
        } else if (stat.isFile()) {
          const file = await fs.open(entry.local);
          try {
            const { size } = await file.stat();
            const sink = tar.entry({ ...header, size });
            const ended = new Promise<void>((resolve, reject) => {
              sink.once('finish', () => resolve()).once('error', reject);
            });
            ended.catch(() => undefined);
            for (let at = 0; at < size; ) {
              const piece = Buffer.allocUnsafe(Math.min(pieceBytes, size - at));
              const { bytesRead } = await file.read(piece, 0, piece.length, at);
              if (bytesRead === 0) throw new FileChangedError(`${entry.local} became shorter while it was read`);
              at += bytesRead;
              progress.bytes += bytesRead;
              if (!sink.write(piece.subarray(0, bytesRead))) {
                await new Promise<void>((resolve) => void sink.once('drain', () => resolve()));
              }
              if (gatheredBytes >= writeBytes) yield take();
              if (at < size) onProgress?.({ ...progress, name: entry.name });
            }
            sink.end(null);
            await ended;
          } finally {
            await file.close();
          }
          progress.files += 1;
        } else progress.skipped += 1;
      }
      onProgress?.({ ...progress, name: entry.name });
      if (gatheredBytes >= writeBytes) yield take();
    }
    const ended = new Promise<void>((resolve) => void tar.once('end', () => resolve()));
    tar.finalize();
    await ended;
    yield take();
  } finally {
    tar.destroy();
  }
}

/** Undefined: the entry has vanished. */
async function statOf(local: string): Promise<Stats | undefined> {
  try {
    return await fs.lstat(local);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    if (local.includes('\ufffd')) throw new Error(`${local}: its name is not UTF-8`);
    return undefined;
  }
}

/** The mode keeps its type, because the library takes a mode of 0 for a missing one. */
function headerOf(name: string, { mode, mtimeMs }: Stats): Pick<Header, 'name' | 'mode' | 'mtime' | 'pax'> {
  const seconds = Math.min(Math.max(Math.floor(mtimeMs / 1000), 0), maxPlainSeconds);
  const isPlain = seconds * 1000 === mtimeMs;
  const pax = isPlain ? null : { mtime: (mtimeMs / 1000).toFixed(6) };
  return { name, mode, mtime: new Date(seconds * 1000), pax };
}
