import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fullPath, missingPackages, programsFor } from '../../platform/config/programs.mjs';

const repository = path.resolve(import.meta.dirname, '../..');

/** Folders with code that runs on the machine. `agent` runs in sandboxes. */
const folders = ['activities', 'api', 'db', 'gateway', 'ops', 'platform', 'runtime', 'worker', 'workflows'];

/** npm is a part of Node; git makes releases in a clone; apt-get and systemctl are used only if they exist; the others are npm packages. */
const notFromTheList = ['apt-get', 'biome', 'git', 'knip', 'npm', 'systemctl', 'tsc'];

/** The name of a program as a literal where it is started, in TypeScript and in Perl. */
const start =
  /\b(?:spawn|spawnSync|execFile|execFileSync|runCommand|run)\)?\(\s*(?:\{[^}]*\},\s*)?'(\w[\w.+/-]*)'|(?:\bexec (?:\{ )?|'(?:\|-|-\|)', )'([\w.-]+)'/g;

test('every program that the sources start is in the list', () => {
  const listed = programsFor('test');
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
  expect([...started].filter((program) => !listed[program] && !notFromTheList.includes(program))).toEqual([]);
});

test('the Dockerfile installs the list’s packages for a host, and no package by name', () => {
  const output = execFileSync(process.execPath, ['ops/setup/list-packages.mjs', 'host'], {
    cwd: repository,
    encoding: 'utf8',
  });
  const packages = output.trim().split(' ');
  expect(packages).toEqual([...new Set(Object.values(programsFor('host')))].sort());
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
  expect(missingPackages('start', {})).toEqual(missingPackages('start'));
});
