import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Every program that the platform runs, with its package (`programs.json`). Set-up, the local driver and the Dockerfile
 * read this list. It is plain JavaScript without dependencies, because set-up runs before npm packages are installed.
 *
 * A name that begins with `/` is a file that must exist, and one with `.so.` is a shared library. Of names with `|`
 * between them, one is enough. A package has one name on all distributions, or one for each family of distributions; a
 * family that is left out has no such package. Programs of the tests only have Debian's packages.
 */

/**
 * `host`: programs that a host worker runs. `start`: further programs of `npm start`. `test`, `machines`,
 * `faults` and `kubernetes`: further programs of the tests.
 * @typedef {'host' | 'start' | 'test' | 'machines' | 'faults' | 'kubernetes'} Purpose
 */

/**
 * Distributions that name their packages alike: Debian and Ubuntu; Fedora; openSUSE; Arch.
 * @typedef {'debian' | 'fedora' | 'suse' | 'arch'} Family
 */

/** @type {Record<Purpose, Record<string, string | Partial<Record<Family, string>>>>} */
const byPurpose = JSON.parse(fs.readFileSync(new URL('./programs.json', import.meta.url), 'utf8'));

/** Each purpose also needs the programs of the earlier ones. */
const purposes = /** @type {Purpose[]} */ (['host', 'start', 'test', 'machines', 'faults', 'kubernetes']);

/** Programs in an unpacked release that many distributions have no package of. */
const releasePrograms = fileURLToPath(new URL('../../bin', import.meta.url));

/** Folders of system programs. A user's PATH, which `su` keeps, lacks some of them. */
const systemFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/** Folders of shared libraries. Debian's have a folder for each architecture in `/usr/lib`. */
const libraryFolders = [
  '/usr/lib64',
  '/lib64',
  '/usr/lib',
  '/lib',
  `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`,
];

/**
 * The programs for a purpose, with the package of each. Undefined: the family has no package of it.
 * @param {Purpose} purpose
 * @param {Family} [family]
 * @returns {Record<string, string | undefined>}
 */
export function programsFor(purpose, family = 'debian') {
  const included = purposes.slice(0, purposes.indexOf(purpose) + 1);
  return Object.fromEntries(
    included.flatMap((name) =>
      Object.entries(byPurpose[name]).map(([program, its]) => [program, typeof its === 'string' ? its : its[family]]),
    ),
  );
}

/**
 * The packages for a purpose.
 * @param {Purpose} purpose
 * @param {Family} [family]
 * @returns {string[]}
 */
export function packagesFor(purpose, family) {
  return namesOf(Object.values(programsFor(purpose, family)));
}

/**
 * The programs that this machine lacks, and of which its distribution has packages.
 * @param {Purpose} purpose
 * @param {Family} [family] undefined: unknown, so all that are missing
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string[]}
 */
export function missingPrograms(purpose, family, env = process.env) {
  return Object.entries(programsFor(purpose, family))
    .filter(([program, name]) => name !== undefined && !isInstalled(program, env))
    .map(([program]) => program);
}

/**
 * The packages of programs.
 * @param {readonly string[]} programs names in the list
 * @param {Family} family
 * @returns {string[]}
 */
export function packagesOf(programs, family) {
  const listed = programsFor('kubernetes', family);
  return namesOf(programs.map((program) => listed[program]));
}

/** @param {readonly (string | undefined)[]} packages */
const namesOf = (packages) => [...new Set(packages.filter((name) => name !== undefined))].sort();

/**
 * Whether a program is on the PATH with the system's folders added, or a file or shared library exists.
 * @param {string} program as in the list
 * @param {NodeJS.ProcessEnv} [env]
 */
export function isInstalled(program, env = process.env) {
  const folders = fullPath(env).split(path.delimiter);
  return program.split('|').some((name) => {
    if (path.isAbsolute(name)) return fs.existsSync(name);
    if (name.includes('.so.')) return libraryFolders.some((folder) => fs.existsSync(path.join(folder, name)));
    return folders.some((folder) => isExecutable(path.join(folder, name)));
  });
}

/**
 * A PATH that finds every installed program: the programs of a release, the given one, and the missing folders of
 * system programs.
 * @param {NodeJS.ProcessEnv} [env]
 */
export function fullPath(env = process.env) {
  // An empty entry would mean the current folder.
  const given = (env.PATH ?? '').split(path.delimiter).filter(Boolean);
  const ours = fs.existsSync(releasePrograms) ? [releasePrograms] : [];
  return [...new Set([...ours, ...given, ...systemFolders])].join(path.delimiter);
}

/** @param {string} file */
function isExecutable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
