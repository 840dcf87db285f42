import { createHash } from 'node:crypto';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { chmod, copyFile, cp, link, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { renameDurably, writeFileDurably } from '../../platform/config/durable-file.ts';
import { isOutOfSpace } from '../disk/out-of-space.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { copyLibraries, copyWithOwnLibraries } from './own-libraries.ts';

/** The mount point of the runtime folder in every sandbox. */
export const runtimeMount = '/.platform';
/** Commands inside a sandbox: its first process, which only waits and reaps, and the agent. */
export const initWords = [`${runtimeMount}/bin/catatonit`, '-P'];
export const agentWords = [`${runtimeMount}/bin/node`, `${runtimeMount}/agent/agent.cjs`];

/** Podman's packages of some distributions have it in a folder of their own. */
const initPrograms = ['/usr/bin/catatonit', '/usr/libexec/podman/catatonit', '/usr/lib/podman/catatonit'];
/** glibc loads it by name at run time, so no program lists it as a dependency. */
const libraryOfNames = 'libresolv.so.2';
/** Another number makes the folder anew from the same programs. */
const layout = 2;

/**
 * The folder that every sandbox sees read-only at `/.platform`: Node with its own loader and C library, so that it runs
 * in any image; the init; the agent. Each version of the contents is made once.
 * @param agentDir the built agent, with `agent.cjs`
 * @throws {Error} when the agent is not built or a program is missing
 */
export async function ensureRuntimeFolder(cacheDir: string, agentDir: string): Promise<string> {
  if (!existsSync(path.join(agentDir, 'agent.cjs'))) {
    throw new Error(`no built agent in ${agentDir}: run node agent/build.mjs`);
  }
  const init = initPrograms.find((file) => existsSync(file));
  if (!init) throw new Error('catatonit is missing: install the package catatonit');
  const node = nodeBinary();
  const agentFiles = await filesIn(agentDir);
  const memoFile = path.join(cacheDir, 'runtime', `known-${layout}-${computeIdentity([node, init, ...agentFiles])}`);
  const known = await readFile(memoFile, 'utf8').catch(() => null);
  if (known !== null && existsSync(known)) return known;
  const folder = await assembleRuntimeFolder(cacheDir, agentDir, { node, init, agentFiles });
  await writeFileDurably(memoFile, folder).catch((error) => {
    // If it cannot be stored, the next start only has to repeat the search.
    if (!isOutOfSpace(error)) throw error;
  });
  return folder;
}

async function assembleRuntimeFolder(
  cacheDir: string,
  agentDir: string,
  { node, init, agentFiles }: { node: string; init: string; agentFiles: string[] },
): Promise<string> {
  const addons = agentFiles.filter((file) => file.endsWith('.node'));
  const libraries = await findLibraries([node, ...addons]);
  const nodeHash = `${await contentHash([node, init, ...libraries])}-${layout}`;
  const agentHash = await contentHash(agentFiles);
  const folder = path.join(cacheDir, 'runtime', `${nodeHash}-${agentHash}`);
  if (existsSync(folder)) return folder;
  return withFileLock(path.join(cacheDir, 'runtime', 'lock'), async () => {
    if (existsSync(folder)) return folder;
    const nodeFolder = path.join(cacheDir, 'runtime', nodeHash);
    if (!existsSync(nodeFolder)) await makeNodeFolder(nodeFolder, { node, init, libraries });
    const draft = `${folder}.draft`;
    await rm(draft, { recursive: true, force: true });
    for (const part of ['bin', 'lib']) {
      await mkdir(path.join(draft, part), { recursive: true });
      for (const name of await readdir(path.join(nodeFolder, part))) {
        await link(path.join(nodeFolder, part, name), path.join(draft, part, name));
      }
    }
    await cp(agentDir, path.join(draft, 'agent'), { recursive: true, dereference: true });
    await runCommand('chmod', ['-R', 'a+rX,go-w', draft]);
    await runCommand('sync', ['-f', draft]);
    await renameDurably(draft, folder);
    return folder;
  });
}

async function makeNodeFolder(
  folder: string,
  { node, init, libraries }: { node: string; init: string; libraries: string[] },
): Promise<void> {
  const draft = `${folder}.draft`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(path.join(draft, 'bin'), { recursive: true });
  await mkdir(path.join(draft, 'lib'));
  await copyLibraries(libraries, draft);
  await copyFile(init, path.join(draft, 'bin', 'catatonit'));
  await chmod(path.join(draft, 'bin', 'catatonit'), 0o755);
  await copyWithOwnLibraries(node, draft, runtimeMount);
  await runCommand('sync', ['-f', draft]);
  await renameDurably(draft, folder);
}

/** The Node of the npm package `node`. The agent was built for this version. */
function nodeBinary(): string {
  const manifest = createRequire(import.meta.url).resolve('node/package.json');
  return path.join(path.dirname(manifest), 'bin', 'node');
}

/** All libraries that these programs load, and the loader, as files of the host. */
export async function findLibraries(programs: string[]): Promise<string[]> {
  const found = new Map<string, string>();
  for (const program of programs) {
    for (const [, file] of (await runCommand('ldd', [program])).matchAll(/(?:=>\s*)?(\/\S+) \(0x/g)) {
      found.set(path.basename(file!), file!);
    }
  }
  const libc = found.get('libc.so.6');
  if (libc) found.set(libraryOfNames, path.join(path.dirname(libc), libraryOfNames));
  return [...found.values()].sort();
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
}

/**
 * A value that changes when one of the files does. The files are not read, because hashing 130 MB takes half a second.
 */
export function computeIdentity(files: string[]): string {
  const hash = createHash('sha256');
  for (const file of files) {
    const { size, mtimeMs, ino } = statSync(file);
    hash.update(`${file}\0${size}\0${mtimeMs}\0${ino}\0`);
  }
  return hash.digest('hex').slice(0, 16);
}

async function contentHash(files: string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) {
    hash.update(`${path.basename(file)}\0`);
    for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) hash.update(chunk);
  }
  return hash.digest('hex').slice(0, 16);
}
