import { expect, test } from '@jest/globals';
import { debianImage } from './support/machine-image.ts';
import { testPlatform } from './support/platform-life.ts';
import { copyArm64Project, inProject, runTests } from './support/project-files.ts';
import { VirtualMachine } from './support/virtual-machine.ts';

/** An ARM64 machine. Its set-up makes the agent, the pages, the clients and the image of `base`. */
let machine: VirtualMachine;
testPlatform(async () => {
  const image = await debianImage('bookworm', { architecture: 'arm64' });
  machine = await VirtualMachine.boot({ image, fill: copyArm64Project, memoryMb: 6144 });
  await machine.run(`${inProject} node ops/setup/main.mjs --for start`);
  return machine;
});

/** Tests with tens of thousands of files. An emulated machine needs more time for them than they have. */
const longOnes = ['a folder with more entries', '100,000 entries', 'Remove does not follow a link that replaces'];

test('the agent serves files, processes and watchers', async () => {
  const files = ['filesystem', 'process', 'watch'].map((name) => `test/agent/${name}.test.ts`);
  const output = await runTests(machine, files, '-t', `^(?!${longOnes.join('|')})`);
  expect(output).toMatch(/^\d+ passed, 0 failed$/);
}, 7_200_000);

/** The parts of the driver with numbers of system calls, layouts of structures and sizes of pages. */
const driver = ['sandbox-life', 'sandbox-walls', 'sandbox-end', 'fence', 'warm-pool', 'mounts', 'odd-images'].map(
  (name) => `test/runtime/${name}.test.ts`,
);

test('the driver runs sandboxes within their walls', async () => {
  expect(await runTests(machine, ['test/runtime/system-calls.test.ts', ...driver])).toMatch(/^\d+ passed, 0 failed$/);
}, 14_400_000);
