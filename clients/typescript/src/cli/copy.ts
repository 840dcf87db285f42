import fs from 'node:fs/promises';
import path from 'node:path';
import { Sandbox } from '../sandbox.ts';
import { type CliCommand, print, printJson, UsageError } from './command.ts';

export const copy: CliCommand = {
  name: 'cp',
  maxWords: 2,
  usage: 'FROM TO',
  summary: 'copy a file or a folder; one side is SANDBOX:PATH',
  async run({ words, connection, json }) {
    const [from, to] = words.map(placeOf);
    if (!from || !to || words.length !== 2 || (from.sandbox === null) === (to.sandbox === null)) {
      throw new UsageError('Give two paths, one of them in a sandbox: SANDBOX:PATH');
    }
    const sandbox = await Sandbox.get((from.sandbox ?? to.sandbox)!, connection);
    const copied =
      from.sandbox === null ? await upload(sandbox, from.path, to.path) : await download(sandbox, from.path, to.path);
    if (json) printJson({ copied });
    else print(copied.join('\n'));
    return 0;
  },
};

/** `sbx-1:/a` is in a sandbox. All other paths are on this machine. */
function placeOf(word: string): { sandbox: string | null; path: string } {
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

async function download(sandbox: Sandbox, from: string, to: string): Promise<string[]> {
  const source = await sandbox.files.stat(from || '~');
  const isFolderHere = await fs.stat(to).then(
    (found) => found.isDirectory(),
    () => to.endsWith('/'),
  );
  const target = isFolderHere ? path.join(to, source.name) : to;
  if (source.type !== 'directory') {
    await fs.mkdir(path.dirname(target), { recursive: true });
    await sandbox.files.download(source.path, target);
    return [target];
  }
  await fs.mkdir(target, { recursive: true });
  const copied: string[] = [];
  for (const entry of await sandbox.files.list(source.path, { depth: 1000 })) {
    const local = insideOf(target, path.posix.relative(source.path, entry.path));
    // A link could lead to any place on this machine.
    if (entry.symlinkTarget !== null) continue;
    if (entry.type === 'directory') await fs.mkdir(local, { recursive: true });
    else if (entry.type === 'file') {
      await fs.mkdir(path.dirname(local), { recursive: true });
      await sandbox.files.download(entry.path, local);
      copied.push(local);
    }
  }
  return copied;
}

/** Names come from the sandbox, so they must not lead out of the folder. */
function insideOf(folder: string, relative: string): string {
  const local = path.resolve(folder, relative);
  if (!local.startsWith(`${path.resolve(folder)}${path.sep}`)) throw new Error(`${relative} is outside of ${folder}`);
  return local;
}
