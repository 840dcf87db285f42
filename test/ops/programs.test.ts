import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { installCommand, packageManager } from '../../platform/config/package-manager.mjs';
import { fullPath, missingPrograms, packagesFor, programsFor } from '../../platform/config/programs.mjs';

const repository = path.resolve(import.meta.dirname, '../..');

/** Folders with code that runs on the machine. `agent` runs in sandboxes. */
const folders = ['activities', 'api', 'db', 'gateway', 'ops', 'platform', 'runtime', 'worker', 'workflows'];

/** npm is a part of Node; git makes releases in a clone; systemctl and firewall-cmd are used only if they exist; the others are npm packages. */
const notFromTheList = ['biome', 'firewall-cmd', 'git', 'knip', 'npm', 'systemctl', 'tsc'];

/** The name of a program as a literal where it is started, in TypeScript and in Perl. */
const start =
  /\b(?:spawn|spawnSync|execFile|execFileSync|runCommand|run)\)?\(\s*(?:\{[^}]*\},\s*)?'(\w[\w.+/-]*)'|(?:\bexec (?:\{ )?|'(?:\|-|-\|)', )'([\w.-]+)'/g;

test('every program that the sources start is in the list', () => {
  const listed = Object.keys(programsFor('test')).flatMap((names) => names.split('|'));
  const started = new Set<string>();
  for (const folder of folders) {
    const files = fs.readdirSync(path.join(repository, folder), { recursive: true, encoding: 'utf8' });
    for (const file of files.filter((name) => /\.(ts|mjs|pl)$/.test(name))) {
      const source = fs.readFileSync(path.join(repository, folder, file), 'utf8');
      for (const [, inScript, inPerl] of source.matchAll(start)) started.add((inScript ?? inPerl)!);
    }
  }
  expect(started).toContain('patchelf');
  // Started by Perl: in place of itself, and in addition.
  expect(started).toContain('s3fs');
  expect(started).toContain('ip');
  expect([...started].filter((program) => !listed.includes(program) && !notFromTheList.includes(program))).toEqual([]);
});

test('the Dockerfile installs the list’s packages for a host, and no package by name', () => {
  const output = execFileSync(process.execPath, ['ops/setup/list-packages.mjs', 'host'], {
    cwd: repository,
    encoding: 'utf8',
  });
  const packages = output.trim().split(' ');
  expect(packages).toEqual(packagesFor('host'));
  expect(packages).toContain('patchelf');
  const dockerfile = fs.readFileSync(path.join(repository, 'Dockerfile'), 'utf8');
  expect(dockerfile.match(/apt-get install [^&]*/g)!.map((line) => line.trim())).toEqual([
    'apt-get install --yes --no-install-recommends $(node /setup/ops/setup/list-packages.mjs host) \\',
  ]);
});

test("all programs are found with a user's PATH without the system's folders", () => {
  expect(fullPath({ PATH: '/opt/bin::/usr/bin' })).toBe(
    '/opt/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin',
  );
  expect(missingPrograms('start', 'debian', {})).toEqual(missingPrograms('start', 'debian'));
});

/** The package manager of a distribution with that os-release(5), where these programs are installed. */
const managerOf = (release: string, ...installed: string[]) =>
  packageManager({ isInstalled: (program) => installed.includes(program), release: () => release });

test.each([
  ['Debian 13', 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n', 'apt-get'],
  ['Ubuntu 24.04', 'VERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n', 'apt-get'],
  ['Linux Mint', 'ID=linuxmint\nID_LIKE="ubuntu debian"\n', 'apt-get'],
  ['Fedora', 'ID=fedora\nVERSION_ID=43\n', 'dnf'],
  ['Rocky Linux', 'ID="rocky"\nID_LIKE="rhel centos fedora"\n', 'dnf'],
  ['openSUSE Tumbleweed', 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', 'zypper'],
  ['Arch', 'ID=arch\n', 'pacman'],
  ['Manjaro', 'ID=manjaro\nID_LIKE=arch\n', 'pacman'],
])('%s has its own package manager, also beside others', (_name, release, program) => {
  expect(managerOf(release, 'apt-get', 'dnf', 'zypper', 'pacman')?.program).toBe(program);
});

test('an unknown distribution has the only package manager that is installed, or none', () => {
  expect(managerOf('ID=somedistro\n', 'dnf')?.family).toBe('fedora');
  expect(managerOf('ID=somedistro\n', 'dnf', 'apt-get')).toBeNull();
  // A known distribution whose package manager was removed.
  expect(managerOf('ID=fedora\n')).toBeNull();
  expect(managerOf('', 'pacman')?.family).toBe('arch');
});

test('the command for people is the one that set-up runs', () => {
  expect(installCommand(managerOf('ID=fedora\n', 'dnf')!, ['crun', 'skopeo'])).toBe(
    'dnf install --assumeyes --setopt=install_weak_deps=False crun skopeo',
  );
  expect(installCommand(managerOf('ID=debian\n', 'apt-get')!, ['crun'])).toBe(
    'apt-get update && apt-get install --yes --no-install-recommends crun',
  );
});

test('every distribution has packages of the programs without which no sandbox runs', () => {
  for (const family of ['debian', 'fedora', 'suse', 'arch'] as const) {
    const without = Object.entries(programsFor('host', family)).filter(([, name]) => name === undefined);
    const makesImages = ['mmdebstrap', '/usr/share/keyrings/debian-archive-keyring.gpg'];
    expect(without.map(([program]) => program)).toEqual(family === 'debian' ? [] : makesImages);
  }
  expect(packagesFor('start', 'fedora')).toEqual(expect.arrayContaining(['iproute', 's3fs-fuse', 'shadow-utils']));
});
