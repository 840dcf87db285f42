import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { debianImage, type Suite } from './support/machine-image.ts';
import { copyProject, runTests } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

const folder = path.resolve(import.meta.dirname, '../runtime');
const files = fs
  .readdirSync(folder)
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => `test/runtime/${name}`);

test.each<Suite>(['bookworm', 'trixie'])(
  'all tests of the driver pass on %s with cgroup v2 alone',
  async (suite) => {
    const image = await debianImage(suite);
    await using machine = await VirtualMachine.boot({ image, fill: copyProject, memoryMb: 6144 });
    expect(await runTests(machine, files)).toMatch(/^\d+ passed, 0 failed$/);
  },
  14_400_000,
);
