import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { copyLibraries, copyWithOwnLibraries } from '../../runtime/sandbox-agent/own-libraries.ts';
import { findLibraries } from '../../runtime/sandbox-agent/runtime-folder.ts';
import { onHost } from './local-host.ts';

const program = '/usr/bin/cat';
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'own-libraries-'));
  for (const part of ['bin', 'lib']) mkdirSync(path.join(folder, part));
  await copyLibraries(await findLibraries([program]), folder);
});

afterEach(() => rmSync(folder, { recursive: true }));

test('a copy runs with the libraries beside it where there are no others', async () => {
  await copyWithOwnLibraries(program, folder, '/.platform');
  const root = path.join(folder, 'root');
  mkdirSync(path.join(root, '.platform'), { recursive: true });
  const script = 'mount --bind "$0" "$1/.platform" && chroot "$1" /.platform/bin/cat --version';
  expect(onHost('unshare', '--mount', 'sh', '-c', script, folder, root)).toMatch(/^cat \(GNU coreutils\)/);
});

test('a copy that patchelf has broken is reported, and not used', async () => {
  const broken = path.join(folder, 'patchelf');
  writeFileSync(broken, '#!/bin/sh\nfor file do :; done\ntruncate --size=1000 "$file"\n');
  chmodSync(broken, 0o755);
  const before = process.env.PATH;
  process.env.PATH = `${folder}:${before}`;
  try {
    await expect(copyWithOwnLibraries(program, folder, '/.platform')).rejects.toThrow(
      'patchelf of this machine makes a cat that does not run',
    );
  } finally {
    process.env.PATH = before;
  }
});

test.each([
  ['a program without a loader', '/usr/bin/catatonit', '/.platform', /no dynamic loader/],
  ['a place whose path is too long', program, '/a-much-longer-place', /no room for the loader/],
])('%s is refused', async (_, source, mount, reason) => {
  await expect(copyWithOwnLibraries(source, folder, mount)).rejects.toThrow(reason);
});
