import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { lockFile } from '../../ops/setup/file-lock.mjs';
import { cacheDir } from '../../ops/setup/toolchain/locations.mjs';

/**
 * Returns a folder that takes long to make. It is made once per machine for the same inputs, in the cache.
 * @param make fills the folder. If it fails, the next call tries again
 */
export async function madeOnce(
  name: string,
  inputs: string[],
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 16);
  const folder = path.join(cacheDir(), `${name}-${hash}`);
  const done = path.join(folder, '.made');
  if (fs.existsSync(done)) return folder;
  const lock = await lockFile(`${folder}.lock`, { wait: true });
  try {
    if (fs.existsSync(done)) return folder;
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(folder, { recursive: true });
    await make(folder);
    fs.writeFileSync(done, '');
    return folder;
  } finally {
    await lock.release();
  }
}
