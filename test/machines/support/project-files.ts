import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheDir, temporalPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { baseRecipeDigest } from '../../../runtime/images/base-image.ts';
import { filesFolder } from './machine-image.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/** Built by set-up, so not in git. */
const built = ['node_modules', 'agent/dist', 'gateway/pages/dist', 'clients/dist'];

/** A shell's words that go to the project in a machine and set its cache. */
export const inProject = `cd ${filesFolder}/project && export PLATFORM_CACHE_DIR=${filesFolder}/cache &&`;

/**
 * Copies this project with its packages, and the parts of the cache that take long to make.
 * @param folder the root of a machine's second disk
 */
export async function copyProject(folder: string): Promise<void> {
  const copies: [from: string, to: string][] = [
    ...built.map((name): [string, string] => [path.join(root, name), path.join(folder, 'project', name)]),
    ...[temporalPrograms().dir, path.join(cacheDir(), 'images', baseRecipeDigest().replace(':', '-'))].map(
      (each): [string, string] => [each, path.join(folder, 'cache', path.relative(cacheDir(), each))],
    ),
  ];
  fs.mkdirSync(path.join(folder, 'project'));
  const sources = 'git ls-files -z | tar --create --null --files-from=- | tar --extract --directory "$1"';
  await run('sh', ['-c', sources, 'sh', path.join(folder, 'project')], { cwd: root });
  for (const [from, to] of copies) {
    fs.mkdirSync(path.dirname(to), { recursive: true });
    await run('cp', ['--archive', from, to]);
  }
}
