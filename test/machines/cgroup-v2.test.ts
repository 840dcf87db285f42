import { expect, test } from '@jest/globals';
import { debianImage } from './support/machine-image.ts';
import { copyProject, runTests } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

/** Tests of the driver whose result depends on the version of control groups, and that are short. */
const files = ['sandbox-life', 'sandbox-end', 'fence', 'warm-pool', 'disk-rates', 'direct-mounts'].map(
  (name) => `test/runtime/${name}.test.ts`,
);
const names = [
  'a sandbox is created, runs commands, pauses, resumes, stops and is removed',
  'an end for lack of memory has its own reason',
  'a renewal starts a guard only if none runs',
  'a claim takes a frozen member and gives it the name, limits and network of the sandbox',
  'reads and writes its disk at most at its rates',
  'a pause while files are being written keeps the mount',
];

test('the driver runs sandboxes on a machine with cgroup v2 alone', async () => {
  const image = await debianImage('trixie');
  await using machine = await VirtualMachine.boot({ image, fill: copyProject });
  expect(await machine.run('stat --file-system --format=%T /sys/fs/cgroup')).toBe('cgroup2fs\n');
  expect(await runTests(machine, files, '-t', names.join('|'))).toBe(`${names.length} passed, 0 failed`);
  const inside = ['test/machines/inside/died-in-pause.inside.ts'];
  expect(await runTests(machine, inside, '--testMatch', '**/*.inside.ts')).toBe('1 passed, 0 failed');
}, 1_800_000);
