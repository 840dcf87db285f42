import { readdir, stat } from 'node:fs/promises';
import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError } from '../rpc/errors.ts';
import { type Entry, entryAt } from './entry.ts';
import { nameOfBytes, statPath, systemPath } from './path.ts';

/** How long a listing may block the event loop before other requests get a turn. */
const sliceMs = 8;
/** A longer reply would not fit into the agent's memory. */
const maxEntries = 250_000;
/** A directory of this size contains a million names or more, and is not read. */
const maxDirectoryBytes = 32 * 1024 * 1024;

/**
 * Everything below `root` to `depth` levels, in slices. Directories come before their contents, and names are in order.
 * Entries that vanish meanwhile are left out. So is the content of directories that this user may not read, and what has a
 * path that is too long for the kernel.
 * @throws {ConnectError} `not_found`, `invalid_argument` when `root` is not a directory, `permission_denied`,
 * `resource_exhausted` when one reply cannot hold all entries
 */
export async function* walk(root: string, depth: number): AsyncGenerator<Entry[]> {
  try {
    if (!(await statPath(root)).isDirectory()) {
      throw new ConnectError(`${root}: not a directory`, Code.InvalidArgument);
    }
    let slice: Entry[] = [];
    let count = 0;
    let sliceEnd = performance.now() + sliceMs;
    /** Open directories, innermost last, with their names and the position in each. */
    const open = [{ folder: root, names: await namesIn(root), next: 0 }];
    for (let level = open.at(-1); level; level = open.at(-1)) {
      if (level.next === level.names.length) {
        open.pop();
        continue;
      }
      const name = level.names[level.next]!;
      level.next += 1;
      const found = entryUnlessGone(level.folder === '/' ? `/${name}` : `${level.folder}/${name}`);
      // Awaited only if it is a promise.
      const entry = found instanceof Promise ? await found : found;
      if (!entry) continue;
      count += 1;
      if (count > maxEntries) throw tooMany(root);
      slice.push(entry);
      if (entry.isDirectory && open.length < depth) {
        open.push({ folder: entry.path, names: await namesUnlessGone(entry.path), next: 0 });
      }
      if (performance.now() > sliceEnd) {
        yield slice;
        slice = [];
        await new Promise(setImmediate);
        sliceEnd = performance.now() + sliceMs;
      }
    }
    yield slice;
  } catch (error) {
    throw toConnectError(error, root);
  }
}

/** The names in a directory, in order. See `nameOfBytes` for names that are not UTF-8. */
async function namesIn(folder: string): Promise<string[]> {
  const target = systemPath(folder);
  if ((await stat(target)).size > maxDirectoryBytes) throw tooMany(folder);
  const names = await readdir(target, 'utf8');
  // Fails before the first reply if the size is already known.
  if (names.length > maxEntries) throw tooMany(folder);
  if (!names.some((name) => name.includes('\ufffd'))) return names;
  return (await readdir(target, 'buffer')).map(nameOfBytes);
}

function tooMany(folder: string): ConnectError {
  return new ConnectError(`${folder}: more than ${maxEntries} entries; list it in parts`, Code.ResourceExhausted);
}

async function namesUnlessGone(folder: string): Promise<string[]> {
  try {
    return await namesIn(folder);
  } catch (error) {
    if (isLeftOut(error)) return [];
    throw error;
  }
}

function entryUnlessGone(path: string): Entry | undefined | Promise<Entry | undefined> {
  const unlessGone = (error: unknown) => {
    if (isLeftOut(error)) return undefined;
    throw error;
  };
  try {
    const entry = entryAt(path);
    return entry instanceof Promise ? entry.catch(unlessGone) : entry;
  } catch (error) {
    return unlessGone(error);
  }
}

const leftOut = new Set([
  // The entry was removed or replaced between two calls.
  ...['ENOENT', 'ENOTDIR', 'ELOOP'],
  'EACCES',
  // No call can name the entry.
  'ENAMETOOLONG',
]);

function isLeftOut(error: unknown): boolean {
  return leftOut.has((error as NodeJS.ErrnoException).code ?? '');
}
