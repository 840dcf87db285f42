import { readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * The hierarchies of control groups that are mounted on this machine. Plain JavaScript, because set-up reads them before
 * npm packages are installed.
 * @typedef {object} Hierarchies
 * @property {1 | 2} version
 * @property {string[]} roots every mounted hierarchy; version 2 has only one
 * @property {string | null} hybridRoot the hierarchy of version 2 when it is mounted beside version 1
 */

/**
 * @param {string} [mounts] the text of `/proc/self/mountinfo`
 * @returns {Hierarchies}
 * @throws {Error} when none is mounted
 */
export function findHierarchies(mounts = readFileSync('/proc/self/mountinfo', 'utf8')) {
  /** @type {string[]} */
  const roots = [];
  /** @type {string | null} */
  let unified = null;
  for (const line of mounts.split('\n')) {
    const [before, after] = line.split(' - ');
    const target = before?.split(' ')[4];
    const type = after?.split(' ')[0];
    if (!target?.startsWith('/sys/fs/cgroup')) continue;
    if (type === 'cgroup2') unified = target;
    else if (type === 'cgroup') roots.push(target);
  }
  if (roots.length === 0) {
    if (!unified) throw new Error('control groups are not mounted at /sys/fs/cgroup');
    return { version: 2, roots: [unified], hybridRoot: null };
  }
  return { version: 1, roots: unified ? [...roots, unified] : roots, hybridRoot: unified };
}

/**
 * The controllers of these hierarchies.
 * @param {Pick<Hierarchies, 'version' | 'roots'>} hierarchies
 * @param {(file: string) => string} [read]
 * @returns {string[]}
 */
export function readControllers({ version, roots }, read = (file) => readFileSync(file, 'latin1')) {
  if (version === 1) return roots.flatMap((root) => path.basename(root).split(','));
  return read(path.join(/** @type {string} */ (roots[0]), 'cgroup.controllers')).split(/\s+/);
}
