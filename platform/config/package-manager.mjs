import fs from 'node:fs';
import { isInstalled } from './programs.mjs';

/**
 * The program that installs packages on this machine. Plain JavaScript without dependencies, because set-up runs before
 * npm packages are installed.
 */

/**
 * @typedef {object} PackageManager
 * @property {import('./programs.mjs').Family} family
 * @property {string} program
 * @property {string[]} [refresh] its arguments that read the lists of packages; absent: `install` does so when needed
 * @property {string[]} install its arguments before the names of packages
 * @property {string} [hint] what to do when it fails
 */

/** @type {PackageManager[]} */
const managers = [
  {
    family: 'debian',
    program: 'apt-get',
    refresh: ['update'],
    install: ['install', '--yes', '--no-install-recommends'],
  },
  {
    family: 'fedora',
    program: 'dnf',
    install: ['install', '--assumeyes', '--setopt=install_weak_deps=False'],
  },
  {
    family: 'suse',
    program: 'zypper',
    install: ['--non-interactive', 'install', '--no-recommends'],
  },
  {
    family: 'arch',
    program: 'pacman',
    // Arch supports no packages that are newer than the rest of the system, so the lists stay those of the last upgrade.
    install: ['--sync', '--needed', '--noconfirm'],
    hint: 'If pacman finds no database or no file of a package, upgrade the system first: pacman --sync --refresh --sysupgrade',
  },
];

/** Words in `ID` and `ID_LIKE` of os-release(5) that tell the family. */
const families = {
  debian: ['debian', 'ubuntu'],
  fedora: ['fedora', 'rhel', 'centos'],
  suse: ['suse', 'opensuse', 'sles'],
  arch: ['arch', 'archlinux'],
};

/** Where the facts come from. Tests replace them. */
const thisMachine = { isInstalled, release: readRelease };

/**
 * The package manager of the distribution. A machine may also have others: Debian has packages of dnf, zypper and
 * pacman. A distribution that is not known has the one that is installed, if it is only one.
 * @param {{isInstalled: (program: string) => boolean, release: () => string}} [facts]
 * @returns {PackageManager | null} null: none is known
 */
export function packageManager(facts = thisMachine) {
  const installed = managers.filter(({ program }) => facts.isInstalled(program));
  const words = wordsOf(facts.release());
  const own = installed.find(({ family }) => families[family].some((word) => words.includes(word)));
  return own ?? (installed.length === 1 ? /** @type {PackageManager} */ (installed[0]) : null);
}

/**
 * The command that installs packages, for people.
 * @param {PackageManager} manager
 * @param {readonly string[]} packages
 */
export function installCommand({ program, refresh, install }, packages) {
  const words = [program, ...install, ...packages].join(' ');
  return refresh ? `${[program, ...refresh].join(' ')} && ${words}` : words;
}

/** @param {string} text of os-release(5) */
function wordsOf(text) {
  return [...text.matchAll(/^(?:ID|ID_LIKE)=(.*)$/gm)].flatMap(([, value = '']) =>
    value.replaceAll(/["']/g, '').split(/[\s-]+/),
  );
}

function readRelease() {
  const file = ['/etc/os-release', '/usr/lib/os-release'].find((each) => fs.existsSync(each));
  return file ? fs.readFileSync(file, 'utf8') : '';
}
