import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.resolve(import.meta.dirname, '../..');
const { scripts } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

/** The test files that a script of package.json runs with these arguments. */
async function listFiles(script: string, ...args: string[]): Promise<string[]> {
  const [, ofScript] = /--then ops\/development\/test\.ts(.*)$/.exec(scripts[script]!)!;
  // A shell, because it takes the quotes of the script away.
  const command = `exec node node_modules/jest/bin/jest.js ${ofScript} "$@" --listTests`;
  const env = { ...process.env, NODE_OPTIONS: '', PATH: `${path.dirname(process.execPath)}:${process.env.PATH}` };
  const { stdout } = await promisify(execFile)('sh', ['-c', command, 'sh', ...args], { cwd: root, env });
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((file) => path.relative(root, file));
}

test.each([
  ['test:faults', 'compose', 'test/faults/compose.long.ts'],
  ['test:faults', 'test/attacks/floods.long.ts', 'test/attacks/floods.long.ts'],
  ['test:machines', 'systemd.machine', 'test/machines/systemd.machine.ts'],
  ['test:kubernetes', 'cluster.kube', 'test/kubernetes/cluster.kube.ts'],
])('`npm run %s -- %s` runs only that file', async (script, name, file) => {
  expect(await listFiles(script, name)).toEqual([file]);
});
