import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { liveShims } from '../../../runtime/oci/live-shims.ts';
import { LocalHost, onHost, shell } from '../../runtime/local-host.ts';

/** Runs in a machine of its own: it changes units of systemd. */
const root = '/sys/fs/cgroup';
const limits = ['cpu.max', 'memory.max', 'memory.swap.max', 'pids.max', 'cpuset.cpus', 'io.max'];

test('the limits of a sandbox stay when systemd loads its units again and makes slices', async () => {
  await using host = await LocalHost.open();
  const spec = host.spec({ cpuCount: 1 });
  const place = await host.driver.create(spec);
  const { instance } = liveShims(host.copy).find(({ folder }) => folder.includes(spec.sandboxId))!;
  const read = () =>
    limits.map((name) => [name, readFileSync(path.join(root, host.copy.cgroup, instance, name), 'latin1').trim()]);
  const before = read();
  expect(Object.fromEntries(before)).toMatchObject({ 'memory.max': String(spec.memoryMb * 1024 ** 2) });

  onHost('systemctl', 'daemon-reload');
  onHost('systemd-run', '--wait', '--slice=own-slice.slice', '-p', 'CPUWeight=50', '-p', 'AllowedCPUs=0', 'true');
  onHost('systemctl', 'set-property', '--runtime', 'ssh.service', 'MemoryMax=2G');
  onHost('systemctl', 'daemon-reexec');
  expect(read()).toEqual(before);
  expect(await shell(place, spec, 'echo still here')).toEqual({ exitCode: 0, output: 'still here' });
});

/** Runs one test file as the main process of a unit, with further settings of the unit. */
function runInUnit(words: string[], ...properties: string[]): string {
  const settings = ['Delegate=yes', `Environment=PATH=${process.env.PATH}`, ...properties];
  const unit = ['--wait', '--pipe', '--quiet', '--collect', `--working-directory=${process.cwd()}`];
  const cache = `Environment=PLATFORM_CACHE_DIR=${process.env.PLATFORM_CACHE_DIR}`;
  return execFileSync('systemd-run', [...unit, ...[...settings, cache].flatMap((each) => ['-p', each]), ...words], {
    encoding: 'utf8',
  });
}

const oneLife = [
  process.execPath,
  'ops/development/test.ts',
  'test/runtime/sandbox-life.test.ts',
  ...['-w', '1', '-t', 'a sandbox is created, runs commands, pauses, resumes, stops and is removed'],
];

test('a host worker runs sandboxes as the service of a unit to which systemd delegates', () => {
  expect(runInUnit(oneLife)).toMatch(/\n1 passed, 0 failed\n$/);
});

test('a host worker runs sandboxes in a namespace of control groups whose root has processes, as in a container', () => {
  // The new mount shows the unit's own group as the root.
  const script = `umount --lazy ${root} && mount -t cgroup2 none ${root} && exec "$@"`;
  const words = ['unshare', '--cgroup', '--mount', 'sh', '-c', script, 'sh', ...oneLife];
  expect(runInUnit(words)).toMatch(/\n1 passed, 0 failed\n$/);
});
