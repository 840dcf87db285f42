import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { renameDurably } from '../../platform/config/durable-file.ts';
import { runCommand } from '../process/command.ts';
import { withFileLock } from '../process/file-lock.ts';
import { copyLibraries, copyWithOwnLibraries } from '../sandbox-agent/own-libraries.ts';
import { ensureRuntimeFolder, findLibraries, runtimeMount } from '../sandbox-agent/runtime-folder.ts';

/**
 * Programs that copy an image to a disk and pack it, with owners, links and attributes. The agent image brings them,
 * because not every image has them.
 */
const programs = ['cp', 'env', 'sync', 'tar'];
const scriptsFolder = path.join(import.meta.dirname, 'in-pod');

/**
 * Makes the files of the agent image, which brings the agent into a pod: the files that a sandbox on a machine sees at
 * `/.platform`, and the programs and scripts that prepare a pod. The agent image contains only this folder, at
 * `/.platform`.
 * @param agentDir the built agent
 * @returns a folder of the cache; files with the same content share one folder
 */
export async function ensureAgentImageFolder(cacheDir: string, agentDir: string): Promise<string> {
  const runtimeFolder = await ensureRuntimeFolder(cacheDir, agentDir);
  const scripts = (await readdir(scriptsFolder)).sort();
  const hash = createHash('sha256').update(runtimeFolder);
  for (const script of scripts) hash.update(await readFile(path.join(scriptsFolder, script)));
  const folder = path.join(cacheDir, 'kubernetes-agent', hash.digest('hex').slice(0, 16));
  if (existsSync(folder)) return folder;
  await mkdir(path.dirname(folder), { recursive: true });
  return withFileLock(path.join(cacheDir, 'kubernetes-agent', 'lock'), async () => {
    if (existsSync(folder)) return folder;
    const draft = `${folder}.draft`;
    await rm(draft, { recursive: true, force: true });
    await cp(runtimeFolder, draft, { recursive: true });
    await cp(scriptsFolder, path.join(draft, 'kubernetes'), { recursive: true });
    for (const name of programs) {
      const program = `/usr/bin/${name}`;
      await copyLibraries(await findLibraries([program]), draft);
      await copyWithOwnLibraries(program, draft, runtimeMount);
    }
    await runCommand('sync', ['-f', draft]);
    await renameDurably(draft, folder);
    return folder;
  });
}
