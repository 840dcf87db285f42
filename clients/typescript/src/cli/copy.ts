import fs from 'node:fs/promises';
import path from 'node:path';
import { SandboxError } from '../errors.ts';
import { printableLine } from '../printable.ts';
import { Sandbox } from '../sandbox.ts';
import { type CliCommand, print, printJson, UsageError } from './command.ts';

export const copy: CliCommand = {
  name: 'cp',
  maxWords: 2,
  usage: 'FROM TO',
  summary: 'copy a file or a folder; one side is SANDBOX:PATH',
  async run({ words, connection, json }) {
    const [from, to] = words.map(parsePlace);
    if (!from || !to || words.length !== 2 || (from.sandbox === null) === (to.sandbox === null)) {
      throw new UsageError('Give two paths, one of them in a sandbox: SANDBOX:PATH');
    }
    const sandbox = await Sandbox.get((from.sandbox ?? to.sandbox)!, connection);
    const copied =
      from.sandbox === null ? await upload(sandbox, from.path, to.path) : await download(sandbox, from.path, to.path);
    if (json) printJson({ copied });
    else print(copied.map(printableLine).join('\n'));
    return 0;
  },
};

/** `sbx-1:/a` is in a sandbox. All other paths are on this machine. */
function parsePlace(word: string): { sandbox: string | null; path: string } {
  const [, sandbox, inside] = /^(sbx-[a-z0-9-]+):([\s\S]*)$/.exec(word) ?? [];
  return sandbox === undefined ? { sandbox: null, path: word } : { sandbox, path: inside! };
}

/** As with `cp`, a file that is copied to a folder, or to a name that ends with a slash, keeps its name. */
async function upload(sandbox: Sandbox, from: string, to: string): Promise<string[]> {
  const isFolder = (await fs.stat(from)).isDirectory();
  const found = to === '' || to.endsWith('/') ? null : await sandbox.files.stat(to).catch(() => null);
  const keepsName = to === '' || to.endsWith('/') || found?.type === 'directory';
  const target = keepsName ? path.posix.join(to || '~', path.basename(path.resolve(from))) : to;
  if (!isFolder) {
    await sandbox.files.upload(from, target);
    return [target];
  }
  const copied: string[] = [];
  await sandbox.files.makeDir(target);
  for (const entry of await fs.readdir(from, { withFileTypes: true, recursive: true })) {
    const local = path.join(entry.parentPath, entry.name);
    const inside = path.posix.join(target, path.relative(from, local).split(path.sep).join('/'));
    if (entry.isDirectory()) await sandbox.files.makeDir(inside);
    else if (entry.isFile()) {
      await sandbox.files.upload(local, inside);
      copied.push(inside);
    }
  }
  return copied;
}

/**
 * The agent's replies are hostile: their names could lead out of the target. So the name of the copy comes from the
 * caller's path, and not from the sandbox.
 */
async function download(sandbox: Sandbox, from: string, to: string): Promise<string[]> {
  const source = await sandbox.files.stat(from || '~');
  const isFolderHere = await fs.stat(to).then(
    (found) => found.isDirectory(),
    () => to.endsWith('/'),
  );
  const target = isFolderHere ? path.join(to, readName(from) ?? sandbox.id) : to;
  if (source.type !== 'directory') {
    await fs.mkdir(path.dirname(target), { recursive: true });
    await sandbox.files.download(source.path, target);
    return [target];
  }
  await fs.mkdir(target, { recursive: true });
  const copied: string[] = [];
  for (const entry of await sandbox.files.list(source.path, { depth: 1000 })) {
    // A link could lead to any place on this machine.
    if (entry.symlinkTarget !== null || entry.type === 'other') continue;
    const names = namesBelow(source.path, entry.path);
    if (entry.type === 'directory') {
      await makeFolder(target, names);
      continue;
    }
    const local = path.join(await makeFolder(target, names.slice(0, -1)), names.at(-1)!);
    await requireNoLink(local);
    await sandbox.files.download(entry.path, local);
    copied.push(local);
  }
  return copied;
}

/** The last name of a path. Null: it has none, such as `~` or `/`. */
function readName(source: string): string | null {
  const name = path.posix.basename(source);
  return name !== '~' && isName(name) ? name : null;
}

/** Whether a text is the name of a file within its folder, on this machine too. */
function isName(text: string): boolean {
  const separators = path.sep === '/' ? /[/\0]/ : /[/\\:\0]/;
  return !['', '.', '..'].includes(text) && !separators.test(text);
}

/** The names from a folder of the sandbox to an entry in it. @throws {SandboxError} `bad_reply`: it is not in it */
function namesBelow(folder: string, entry: string): string[] {
  const start = folder.endsWith('/') ? folder : `${folder}/`;
  const names = entry.slice(start.length).split('/');
  if (entry.startsWith(start) && names.every(isName)) return names;
  throw new SandboxError('bad_reply', `The sandbox listed ${entry}, which is no path in ${folder}`);
}

/** Makes folders below one, and follows no link that is already there. Returns the innermost. */
async function makeFolder(folder: string, names: readonly string[]): Promise<string> {
  let made = folder;
  for (const name of names) {
    made = path.join(made, name);
    await requireNoLink(made);
    await fs.mkdir(made, { recursive: true });
  }
  return made;
}

async function requireNoLink(local: string): Promise<void> {
  const found = await fs.lstat(local).catch(() => null);
  if (found?.isSymbolicLink()) throw new Error(`${local} is a link, which could lead out of the target`);
}
