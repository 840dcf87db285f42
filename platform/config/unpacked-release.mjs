import fs from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The folder of an unpacked release has the layout of a clone, and also `release.json`, programs in `bin`, and archives
 * of what a clone makes on its machine. Plain JavaScript, because set-up runs it.
 */
const root = fileURLToPath(new URL('../..', import.meta.url));

/** Whether this folder is an unpacked release, with all packages and bundles, and not a clone. */
export const isRelease = () => fs.existsSync(`${root}release.json`);

/**
 * An archive of this release with the content of a folder.
 * @param {string} name the name of the folder
 * @returns {string | null} a file of tar(1) and zstd(1); null in a clone
 */
export function releaseArchive(name) {
  const file = `${root}archives/${name}.tar.zst`;
  return fs.existsSync(file) ? file : null;
}
