import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/**
 * `npm test -- …`: runs Jest with the given arguments. The last line is `N passed, N failed`. The exit status is 0 only
 * if tests ran and all of them passed.
 */
const root = path.resolve(import.meta.dirname, '../..');
const runDir = fs.mkdtempSync(path.join(os.tmpdir(), 'test-run-'));
const countsFile = path.join(runDir, 'counts.json');
const args = process.argv.slice(2);

const jest = spawn(
  process.execPath,
  ['--experimental-vm-modules', path.join(root, 'node_modules/jest/bin/jest.js'), ...args],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      // Workers need the option too. The warning that it is experimental is hidden.
      NODE_OPTIONS:
        `${process.env.NODE_OPTIONS ?? ''} --experimental-vm-modules --disable-warning=ExperimentalWarning`.trim(),
      TEST_COUNTS_FILE: countsFile,
      // Tests start the platform's processes many times. Each process then loads the modules that the first one has
      // compiled.
      NODE_COMPILE_CACHE: path.join(runDir, 'compiled'),
    },
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => jest.kill(signal));
const [code] = await once(jest, 'exit');

let { passed, failed } = { passed: 0, failed: 0 };
if (fs.existsSync(countsFile)) ({ passed, failed } = JSON.parse(fs.readFileSync(countsFile, 'utf8')));
// Programs that the tests have started may still be writing there while they end.
fs.rmSync(runDir, { recursive: true, maxRetries: 5, retryDelay: 200 });
// Jest itself may fail, for example before the first test.
if (code !== 0 && failed === 0) failed = 1;
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
