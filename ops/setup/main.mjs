import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fullPath } from '../../platform/config/programs.mjs';
import { isRelease } from '../../platform/config/unpacked-release.mjs';
import { baseImage, codeInterpreterImage, imagesAskedFor } from './builtin-images.mjs';
import { agentBundle, agentCodeCache, clientPackages, consoleBundle, webPagesBundle } from './bundles.mjs';
import { lockFile } from './file-lock.mjs';
import { removeGoCaches } from './go-programs.mjs';
import { kubernetes } from './kubernetes-programs.mjs';
import { requireMachine } from './machine-checks.mjs';
import { npmPackages, projectNode } from './npm-packages.mjs';
import { paymentTestServerProgram } from './payment-test-server.mjs';
import { runMissing, SetupError } from './progress.mjs';
import { registryProgram } from './registry-program.mjs';
import { s3TestServerProgram } from './s3-test-server.mjs';
import { systemPackages } from './system-packages.mjs';
import { temporal, unpackedTemporal } from './temporal-programs.mjs';
import { timeSkippingTestServer } from './time-skipping-test-server.mjs';
import { cacheDir } from './toolchain/locations.mjs';

/**
 * `node ops/setup/main.mjs [--for start|bench|test|machines|faults|kubernetes|packages|release] [--with TEMPLATE]… [--then SCRIPT ARGS…]`
 *
 * Runs the missing steps of set-up with the machine's own Node (20 or newer), then replaces itself with the project's
 * own Node and the script. `--with` at once makes an image that a host would otherwise make later: `code-interpreter` or
 * `code-interpreter-all`. This file has no dependencies, because at first no packages are installed.
 */
const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
// `su` keeps the PATH of a user, which lacks the folders of system programs.
process.env.PATH = fullPath();
// Programs and images must be readable by users other than root, because Postgres and sandboxes run as such users.
// Files with secrets get their modes explicitly.
process.umask(0o022);

const thenAt = process.argv.indexOf('--then');
const [script, ...scriptArgs] = thenAt === -1 ? [] : process.argv.slice(thenAt + 1);
const { values } = parseArgs({
  args: process.argv.slice(2, thenAt === -1 ? undefined : thenAt),
  options: { for: { type: 'string', default: 'start' }, with: { type: 'string', multiple: true, default: [] } },
});

/** @type {Record<string, () => import('./progress.mjs').Step[]>} */
const stepsInClone = {
  packages: () => [npmPackages(root)],
  start: () => startSteps(process.env.TEMPORAL_ADDRESS ? [] : [temporal(root)]),
  // Some measurements run on the servers of the tests.
  bench: () => startSteps([temporal(root, { needsServer: true })]),
  test: () => testSteps('test'),
  machines: () => testSteps('machines'),
  faults: () => testSteps('faults'),
  kubernetes: () => [...testSteps('kubernetes'), kubernetes()],
  release: () => [npmPackages(root), systemPackages('host')],
};

/**
 * A release has its packages and bundles. It needs no network except for the packages of the distribution.
 * @type {Record<string, () => import('./progress.mjs').Step[]>}
 */
const stepsInRelease = {
  packages: () => [],
  start: () => [
    systemPackages('start'),
    ...(process.env.TEMPORAL_ADDRESS ? [] : [unpackedTemporal()]),
    agentCodeCache(root),
    baseImage(root),
  ],
};
const stepsFor = isRelease() ? stepsInRelease : stepsInClone;

/** @param {import('./progress.mjs').Step[]} temporalSteps */
function startSteps(temporalSteps) {
  return [
    npmPackages(root),
    systemPackages('start'),
    ...(process.env.PLATFORM_REGISTRY ? [] : [registryProgram()]),
    ...temporalSteps,
    agentBundle(root),
    webPagesBundle(root),
    consoleBundle(root),
    clientPackages(root),
    baseImage(root),
  ];
}

/** @param {'test' | 'machines' | 'faults' | 'kubernetes'} purpose */
function testSteps(purpose) {
  return [
    npmPackages(root),
    systemPackages(purpose),
    temporal(root, { needsServer: true }),
    timeSkippingTestServer(),
    s3TestServerProgram(),
    paymentTestServerProgram(),
    agentBundle(root),
    webPagesBundle(root),
    consoleBundle(root),
    clientPackages(root),
    baseImage(root),
    codeInterpreterImage(root),
  ];
}

const stopping = new AbortController();
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** One Ctrl-C causes several signals: from the terminal, and forwarded by npm. */
function stop() {
  if (!stopping.signal.aborted) console.log('\nStopping set-up …');
  stopping.abort();
}

async function setUp() {
  const purpose = stepsFor[values.for];
  if (!purpose) throw new SetupError(`--for ${values.for}: give one of ${Object.keys(stepsFor).join(', ')}`);
  const steps = [...purpose(), ...imagesAskedFor(root, values.with)];
  const mayRun = values.for === 'packages' || process.getuid() === 0;
  if (mayRun && (await isAllDone(steps))) return;
  // Before the first step, because some steps take minutes.
  if (values.for !== 'packages') await requireMachine(root, steps);
  const name = createHash('sha256').update(root).digest('hex').slice(0, 16);
  const lock = await lockFile(path.join(cacheDir(), 'locks', `set-up-${name}.lock`), { wait: true });
  for (const signal of stopSignals) process.on(signal, stop);
  try {
    console.log('Set-up:');
    await runMissing(steps, stopping.signal);
  } finally {
    await removeGoCaches();
    await lock.release();
    for (const signal of stopSignals) process.off(signal, stop);
  }
}

async function isAllDone(steps) {
  for (const step of steps) if (!(await step.isDone())) return false;
  return true;
}

/** Forwards signals to the script, and ends with the script's exit status. */
function runScript() {
  const child = spawn(projectNode(root), [path.resolve(root, script), ...scriptArgs], {
    stdio: 'inherit',
    env: {
      // Compiled code is cached for the next start.
      NODE_COMPILE_CACHE: path.join(cacheDir(), 'node-compile'),
      ...process.env,
      PATH: `${path.join(root, 'node_modules/.bin')}${path.delimiter}${process.env.PATH}`,
    },
  });
  for (const signal of stopSignals) process.on(signal, () => child.kill(signal));
  child.once('exit', (code, signal) => {
    process.exitCode = signal ? 128 + os.constants.signals[signal] : code;
  });
}

try {
  await setUp();
  if (script) runScript();
} catch (error) {
  console.error(error instanceof SetupError ? `\n${error.message}` : error);
  // A reader of the tests' last line must not mistake a failed set-up for success.
  if (['test', 'machines', 'faults', 'kubernetes'].includes(values.for)) console.log('\n0 passed, 1 failed');
  process.exitCode = stopping.signal.aborted ? 130 : 1;
}
