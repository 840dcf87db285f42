import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fullPath } from '../../config/programs.mjs';
import { baseImage, codeInterpreterImage, imagesAskedFor } from './builtin-images.mjs';
import { agentBundle, webPagesBundle } from './bundles.mjs';
import { debianPackages } from './debian-packages.mjs';
import { lockFile } from './file-lock.mjs';
import { kubernetes } from './kubernetes-programs.mjs';
import { npmPackages, projectNode } from './npm-packages.mjs';
import { paymentTestServerProgram } from './payment-test-server.mjs';
import { runMissing, SetupError } from './progress.mjs';
import { s3TestServerProgram } from './s3-test-server.mjs';
import { temporal } from './temporal-programs.mjs';
import { timeSkippingTestServer } from './time-skipping-test-server.mjs';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * `node ops/setup/main.mjs [--for start|test|faults|kubernetes|packages] [--with TEMPLATE]… [--then SCRIPT ARGS…]`
 *
 * Does the set-up that is missing, on whatever Node (20 or newer) the machine has, then runs the script with the
 * project's own Node in place of itself. `--with` makes the image of a built-in template at once that a host would make later:
 * `code-interpreter`, `code-interpreter-all`. Without dependencies: at first there are none.
 */
const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
// `su` keeps the PATH of a user, which lacks the folders of system programs.
process.env.PATH = fullPath();
// Programs and images must be readable by users other than root: Postgres runs as one, and so do sandboxes. Files with
// secrets have their modes given.
process.umask(0o022);

const thenAt = process.argv.indexOf('--then');
const [script, ...scriptArgs] = thenAt === -1 ? [] : process.argv.slice(thenAt + 1);
const { values } = parseArgs({
  args: process.argv.slice(2, thenAt === -1 ? undefined : thenAt),
  options: { for: { type: 'string', default: 'start' }, with: { type: 'string', multiple: true, default: [] } },
});

/** @type {Record<string, () => import('./progress.mjs').Step[]>} */
const stepsFor = {
  packages: () => [npmPackages(root)],
  start: () => [
    npmPackages(root),
    debianPackages('start'),
    ...(process.env.TEMPORAL_ADDRESS ? [] : [temporal(root)]),
    agentBundle(root),
    webPagesBundle(root),
    baseImage(root),
  ],
  test: () => testSteps('test'),
  faults: () => testSteps('faults'),
  kubernetes: () => [...testSteps('kubernetes'), kubernetes()],
};

/** @param {'test' | 'faults' | 'kubernetes'} purpose */
function testSteps(purpose) {
  return [
    npmPackages(root),
    debianPackages(purpose),
    temporal(root),
    timeSkippingTestServer(),
    s3TestServerProgram(),
    paymentTestServerProgram(),
    agentBundle(root),
    webPagesBundle(root),
    baseImage(root),
    codeInterpreterImage(root),
  ];
}

async function setUp() {
  const purpose = stepsFor[values.for];
  if (!purpose) throw new SetupError(`--for ${values.for}: give one of ${Object.keys(stepsFor).join(', ')}`);
  const steps = [...purpose(), ...imagesAskedFor(root, values.with)];
  // Said before the first step: some take minutes.
  if (values.for !== 'packages' && process.getuid() !== 0) {
    throw new SetupError('The local driver of sandboxes needs root. Run this as root.');
  }
  if (await isAllDone(steps)) return;
  const name = createHash('sha256').update(root).digest('hex').slice(0, 16);
  const lock = await lockFile(path.join(cacheDir(), 'locks', `set-up-${name}.lock`), { wait: true });
  try {
    console.log('Set-up:');
    await runMissing(steps);
  } finally {
    await lock.release();
  }
}

/** One after the other: a step may look with what an earlier one brings. */
async function isAllDone(steps) {
  for (const step of steps) if (!(await step.isDone())) return false;
  return true;
}

/** Signals go on to the script; how it ends is how we end. */
function runScript() {
  const child = spawn(projectNode(root), [path.resolve(root, script), ...scriptArgs], {
    stdio: 'inherit',
    env: {
      // What was compiled once need not be compiled at the next start.
      NODE_COMPILE_CACHE: path.join(cacheDir(), 'node-compile'),
      ...process.env,
      PATH: `${path.join(root, 'node_modules/.bin')}${path.delimiter}${process.env.PATH}`,
    },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.once('exit', (code, signal) => {
    process.exitCode = signal ? 128 + os.constants.signals[signal] : code;
  });
}

try {
  await setUp();
  if (script) runScript();
} catch (error) {
  console.error(error instanceof SetupError ? `\n${error.message}` : error);
  // Who reads the last line of the tests must not mistake a part that could not be had for success.
  if (['test', 'faults', 'kubernetes'].includes(values.for)) console.log('\n0 passed, 1 failed');
  process.exitCode = 1;
}
