import { expect, test } from '@jest/globals';
import { debianImage, type Suite } from './support/machine-image.ts';
import { copyProject, runTests } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

test.each<Suite>(['bookworm', 'trixie'])(
  'the driver and the systemd of %s share control groups',
  async (suite) => {
    const image = await debianImage(suite);
    await using machine = await VirtualMachine.boot({ image, fill: copyProject });
    const file = 'test/machines/inside/systemd.inside.ts';
    expect(await runTests(machine, [file], '--testMatch', '**/*.inside.ts')).toBe('3 passed, 0 failed');
  },
  3_600_000,
);

test('sandboxes run beside a systemd that uses control groups of both versions', async () => {
  const image = await debianImage('bookworm');
  const kernelOptions = 'systemd.unified_cgroup_hierarchy=0';
  await using machine = await VirtualMachine.boot({ image, fill: copyProject, kernelOptions });
  expect(await machine.run('stat --file-system --format=%T /sys/fs/cgroup /sys/fs/cgroup/unified')).toBe(
    'tmpfs\ncgroup2fs\n',
  );
  expect(await runTests(machine, ['test/runtime/runtimes.test.ts'])).toMatch(/^\d+ passed, 0 failed$/);
}, 3_600_000);
