import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { makeProcessFolder } from '../../platform/config/process-folder.ts';
import { printTestTimes } from './test-times.ts';

/**
 * `npm test -- …`: runs Jest with the given arguments. A file that fails is run once more, alone, at the end, and
 * `retried: <file>` names it: a late failure of one test in thousands must not cost a whole run. More than
 * `maxRetriedFiles` such files fail the run. `--profile` prints where the time goes. The last line is `N passed, N failed`. The exit status is 0 only if tests
 * ran and all of them passed.
 */
const maxRetriedFiles = 2;
const root = path.resolve(import.meta.dirname, '../..');
/**
 * The run's databases and compiled modules. In memory, because a run makes and removes many thousands of files: ext4
 * searches long for the number of a new file when many were removed just now (a tenth of the processor time of the tests
 * of the API).
 */
const runDir = makeProcessFolder(hasRoom('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'sandbox-platform-test-run-');
// Postgres, which does not run as root, has its folder below it.
fs.chmodSync(runDir, 0o711);
const args = process.argv.slice(2).filter((arg) => arg !== '--profile');
const isProfiled = process.argv.includes('--profile');
const timesFile = path.join(runDir, 'times');

function hasRoom(folder: string): boolean {
  if (!fs.existsSync(folder)) return false;
  const { bavail, bsize } = fs.statfsSync(folder);
  return bavail * bsize > 4 * 1024 ** 3;
}

interface Counts {
  passed: number;
  failed: number;
  /** The number of test files that ran. */
  files: number;
  failedFiles: { file: string; passed: number; failed: number }[];
}

let isInterrupted = false;

/**
 * Jest gives these flags to its workers. `native-runtime.cjs` needs Node's internals. Workers make much short-lived
 * garbage: with a larger space for it, the tests of the API take a tenth less processor time.
 */
const nodeFlags = ['--expose-internals', '--max-semi-space-size=32'];

async function runJest(extraArgs: string[], extraEnv: NodeJS.ProcessEnv = {}): Promise<Counts> {
  const countsFile = path.join(runDir, 'counts.json');
  fs.rmSync(countsFile, { force: true });
  const words = [...nodeFlags, path.join(root, 'node_modules/jest/bin/jest.js'), ...args, ...extraArgs];
  const jest = spawn(process.execPath, words, {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --disable-warning=ExperimentalWarning`.trim(),
      TEST_RUN_DIR: runDir,
      TEST_COUNTS_FILE: countsFile,
      ...(isProfiled && { TEST_TIMES_FILE: timesFile }),
      // Tests start the platform's processes many times. Each process then loads the modules that the first one has
      // compiled.
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? path.join(runDir, 'compiled'),
      ...extraEnv,
    },
  });
  const forward = (signal: NodeJS.Signals) => {
    isInterrupted = true;
    jest.kill(signal);
  };
  process.on('SIGINT', forward);
  process.on('SIGTERM', forward);
  const [code] = await once(jest, 'exit');
  process.off('SIGINT', forward);
  process.off('SIGTERM', forward);
  const counts: Counts = fs.existsSync(countsFile)
    ? JSON.parse(fs.readFileSync(countsFile, 'utf8'))
    : { passed: 0, failed: 0, files: 0, failedFiles: [] };
  // Jest itself may fail, for example before the first test.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return counts;
}

const counts = await runJest([]);
let { passed, failed } = counts;
// A run of one file was alone already.
if (!isInterrupted && counts.files > 1 && counts.failedFiles.length <= maxRetriedFiles) {
  for (const first of counts.failedFiles) {
    const second = await runJest(['--filter', path.join(root, 'test/support/jest/one-file.cjs')], {
      ONLY_TEST_FILE: first.file,
    });
    passed += second.passed - first.passed;
    failed += second.failed - first.failed;
    console.log(`\nretried: ${first.file}`);
  }
}
if (isProfiled) printTestTimes(timesFile);
// Programs that the tests have started may still be writing there while they end.
fs.rmSync(runDir, { recursive: true, maxRetries: 5, retryDelay: 200 });
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
