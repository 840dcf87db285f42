import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

/**
 * Writes the files of a commit into a new folder, or the current files of this folder.
 * @param tree the new folder
 */
export async function writeSourceTree(tree: string, commit: string | null): Promise<void> {
  fs.mkdirSync(tree);
  const files = commit ? `git archive ${commit}` : 'git ls-files -z | tar --create --null --files-from=-';
  await run('sh', ['-c', `${files} | tar --extract --directory "$1"`, 'sh', tree], { cwd: root });
}

/** Whether its package-lock.json equals that of this folder. */
export function hasSamePackages(tree: string): boolean {
  const readLock = (folder: string) => fs.readFileSync(path.join(folder, 'package-lock.json'), 'utf8');
  return readLock(tree) === readLock(root);
}
