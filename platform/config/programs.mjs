import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Every program that the platform runs, with its Debian package (`programs.json`). Set-up, the local driver and the
 * Dockerfile read this list. It is plain JavaScript without dependencies, because set-up runs before npm packages are
 * installed. A name that begins with `/` is a file that must exist; a `*` in it matches any folder.
 */

/**
 * `host`: programs that a host worker runs. `start`: further programs of `npm start`. `test`, `faults` and
 * `kubernetes`: further programs of the tests.
 * @typedef {'host' | 'start' | 'test' | 'faults' | 'kubernetes'} Purpose
 */

/** @type {Record<Purpose, Record<string, string>>} */
const byPurpose = JSON.parse(fs.readFileSync(new URL('./programs.json', import.meta.url), 'utf8'));

/** Each purpose also needs the programs of the earlier ones. */
const purposes = /** @type {Purpose[]} */ (['host', 'start', 'test', 'faults', 'kubernetes']);

/** Programs in an unpacked release that many distributions have no package of. */
const releasePrograms = fileURLToPath(new URL('../../bin', import.meta.url));

/** Folders of system programs. A user's PATH, which `su` keeps, lacks some of them. */
const systemFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/**
 * The programs for a purpose, with the Debian package of each.
 * @param {Purpose} purpose
 * @returns {Record<string, string>}
 */
export function programsFor(purpose) {
  const included = purposes.slice(0, purposes.indexOf(purpose) + 1);
  return Object.assign({}, ...included.map((name) => byPurpose[name]));
}

/**
 * Debian packages of the programs that this machine lacks.
 * @param {Purpose} purpose
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {string[]}
 */
export function missingPackages(purpose, env = process.env) {
  const missing = Object.entries(programsFor(purpose)).filter(([program]) => !isInstalled(program, env));
  return [...new Set(missing.map(([, name]) => name))].sort();
}

/**
 * Whether a program is on the PATH with the system's folders added, or a file exists.
 * @param {string} program
 * @param {NodeJS.ProcessEnv} [env]
 */
export function isInstalled(program, env = process.env) {
  if (path.isAbsolute(program)) return isThere(program);
  return fullPath(env)
    .split(path.delimiter)
    .some((folder) => isExecutable(path.join(folder, program)));
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

/** @param {string} file with a `*` for at most one folder. `fs.globSync` would need a newer Node than set-up has. */
function isThere(file) {
  const [above, below] = file.split('/*/');
  if (below === undefined) return fs.existsSync(file);
  return fs.existsSync(above) && fs.readdirSync(above).some((folder) => fs.existsSync(path.join(above, folder, below)));
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
