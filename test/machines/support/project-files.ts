import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheDir, s3TestServer, temporalPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { withMachineCertificates } from '../../../platform/config/machine-certificates.mjs';
import { baseRecipeDigest } from '../../../runtime/images/base-image.ts';
import { ensureWorkflowBundle } from '../../../worker/workflow-bundle.ts';
import { arm64GoPrograms, arm64Packages } from './arm64-files.ts';
import { filesFolder } from './machine-image.ts';
import type { VirtualMachine } from './virtual-machine.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/** Built by set-up, so not in git. */
const built = ['node_modules', 'agent/dist', 'gateway/pages/dist', 'clients/dist'];

/** A shell's words that go to the project in a machine, and set its cache and the folders of its programs. */
export const inProject = [
  `cd ${filesFolder}/project`,
  `export PLATFORM_CACHE_DIR=${filesFolder}/cache`,
  `[ ! -e ${filesFolder}/authorities ] || export NODE_EXTRA_CA_CERTS=${filesFolder}/authorities`,
  `PATH=$PWD/node_modules/.bin:${filesFolder}/bin:$PATH &&`,
].join(' && ');

/**
 * Runs test files in a machine, as `npm test` does.
 * @param args further arguments of Jest
 * @returns the last line of the run, `N passed, N failed`
 * @throws {Error} with the output when a test failed
 */
export async function runTests(machine: VirtualMachine, files: readonly string[], ...args: string[]): Promise<string> {
  const words = ['node', 'ops/development/test.ts', ...files, '-w', '1', ...args].map((word) => `'${word}'`);
  const output = await machine.run(`${inProject} ${words.join(' ')}`);
  console.log(output);
  return output.trimEnd().split('\n').at(-1)!;
}

/**
 * Copies this project with its packages, and the parts of the cache that take long to make.
 * @param folder the root of a machine's second disk
 */
export async function copyProject(folder: string): Promise<void> {
  const cached = [
    temporalPrograms().dir,
    s3TestServer().dir,
    path.join(cacheDir(), 'images', baseRecipeDigest().replace(':', '-')),
  ];
  await copyAll(folder, [
    ...built.map((name): Copied => [path.join(root, name), path.join('project', name)]),
    ...cached.map((each): Copied => [each, path.join('cache', path.relative(cacheDir(), each))]),
  ]);
}

/** As `copyProject`, for ARM64. The machine itself makes what set-up makes in less than some minutes. */
export async function copyArm64Project(folder: string): Promise<void> {
  const programs = await arm64GoPrograms();
  await copyAll(folder, [
    [path.join(await arm64Packages(), 'node_modules'), 'project/node_modules'],
    ...fs.readdirSync(programs).map((name): Copied => [path.join(programs, name), path.join('cache/toolchain', name)]),
  ]);
}

/** A folder, and its place on the second disk of a machine. */
type Copied = [from: string, to: string];

async function copyAll(folder: string, copies: readonly Copied[]): Promise<void> {
  fs.mkdirSync(path.join(folder, 'project'));
  const sources = 'git ls-files -z | tar --create --null --files-from=- | tar --extract --directory "$1"';
  await run('sh', ['-c', sources, 'sh', path.join(folder, 'project')], { cwd: root });
  const { stdout: npm } = await run('sh', ['-c', 'dirname "$(dirname "$(realpath "$(command -v npm)")")"']);
  // An emulated machine bundles the workflows for minutes.
  const bundle = await ensureWorkflowBundle(cacheDir());
  const bundled = `project/workflows/dist/${path.basename(bundle)}`;
  for (const [from, to] of [...copies, [npm.trim(), 'npm'], [bundle, bundled]] as const) {
    fs.mkdirSync(path.dirname(path.join(folder, to)), { recursive: true });
    await run('cp', ['--archive', from, path.join(folder, to)]);
  }
  // This machine may reach registries through a proxy that inspects TLS.
  const authorities = withMachineCertificates(process.env).NODE_EXTRA_CA_CERTS;
  if (authorities) fs.copyFileSync(authorities, path.join(folder, 'authorities'));
  fs.mkdirSync(path.join(folder, 'bin'));
  fs.symlinkSync('../npm/bin/npm-cli.js', path.join(folder, 'bin/npm'));
}
