import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { baseImageArchive, makeFromPackages } from '../../runtime/images/base-image.ts';
import { packFolder, packRootFileSystem } from './archive.ts';
import { writeBillOfMaterials } from './bill-of-materials.ts';
import { removeUnneeded } from './contents.ts';
import { buildPrograms } from './programs.ts';

/**
 * `npm run release [-- --out FOLDER]`: makes the files of a release from the last commit, for this machine's processor:
 * the platform, its list of parts, the Helm chart, the packages of the clients, and the checksums of all. The same commit
 * gives the same bytes, while Debian's archive has the same packages. Needs root, Go, and the registries of npm, Go and
 * Debian.
 */
const root = path.resolve(import.meta.dirname, '../..');
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join(root, 'dist/release') } } });
const out = path.resolve(values.out);
const work = `${out}.work`;
const tree = path.join(work, 'platform');
const git = (...words: string[]) => execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim();

process.umask(0o022);
const commit = git('rev-parse', 'HEAD');
const seconds = Number(git('show', '--no-patch', '--format=%ct', commit));
// Programs that the build runs take it for the clock.
process.env.SOURCE_DATE_EPOCH = `${seconds}`;
if (git('status', '--porcelain') !== '')
  report('The release is that of the last commit, without the changes of this folder.');

for (const folder of [out, work]) fs.rmSync(folder, { recursive: true, force: true });
for (const folder of [out, tree]) fs.mkdirSync(folder, { recursive: true });

report('building the platform');
buildPlatform();
const { version } = JSON.parse(fs.readFileSync(path.join(tree, 'package.json'), 'utf8')) as { version: string };
const name = `sandbox-platform-${version}-linux-${process.arch}`;
await copyPackages();
removeUnneeded(tree);

report('building Go programs');
const { temporal, registry, syft } = await buildPrograms();
fs.cpSync(registry.folder, path.join(tree, 'bin'), { recursive: true });
fs.cpSync(temporal.folder, path.join(work, temporal.name), { recursive: true });

report('listing the parts');
const listing = { syft: path.join(syft.folder, 'syft'), version, seconds };
await writeBillOfMaterials(work, path.join(out, `${name}.cdx.json`), { ...listing, name: 'sandbox-platform' });

report('making the base image');
const baseImage = path.join(work, 'base-image');
await makeFromPackages(baseImage, [], () => {}, undefined);
// syft names Debian's packages completely only if they are those of the whole folder.
const ofBaseImage = path.join(out, `${name}.base-image.cdx.json`);
await writeBillOfMaterials(baseImage, ofBaseImage, { ...listing, name: 'sandbox-platform-base-image' });

report('packing');
const archives = path.join(tree, 'archives');
fs.mkdirSync(archives);
await packFolder(temporal.folder, path.join(archives, `${temporal.name}.tar.zst`), { seconds });
await packRootFileSystem(baseImage, path.join(archives, `${baseImageArchive()}.tar.zst`), { seconds });
fs.writeFileSync(
  path.join(tree, 'release.json'),
  `${JSON.stringify({ version, commit, processor: process.arch }, null, 2)}\n`,
);
await packFolder(tree, path.join(out, `${name}.tar.gz`), { seconds, inside: `sandbox-platform-${version}` });
writeChecksums();
fs.rmSync(work, { recursive: true });
report('');
for (const file of fs.readdirSync(out)) {
  report(`${(fs.statSync(path.join(out, file)).size / 1e6).toFixed(1).padStart(7)} MB  ${path.join(out, file)}`);
}
report('SHA256SUMS has no signature. The workflow of a tag signs where each file was built: docs/install.md');

/** The files of the commit, with npm's packages for production and the bundles that a running platform uses. */
function buildPlatform(): void {
  execFileSync('sh', ['-ec', `git archive ${commit} | tar --extract --directory "$1"`, 'sh', tree], { cwd: root });
  fs.copyFileSync(path.join(tree, 'ops/release/sandbox-platform'), path.join(tree, 'sandbox-platform'));
  fs.chmodSync(path.join(tree, 'sandbox-platform'), 0o755);
  inFixedPlace('npm', 'ci', '--no-audit', '--no-fund', '--loglevel=error');
  for (const script of [
    'agent/build.mjs',
    'worker/build-workflow-bundle.ts',
    'gateway/pages/build.mjs',
    'console/build.mjs',
    'clients/build.mjs',
  ]) {
    inFixedPlace('node_modules/node/bin/node', script);
  }
  // Each build writes other bytes, so set-up makes them on the machine.
  for (const bundle of ['core', 'sandbox']) fs.rmSync(path.join(tree, `agent/dist/${bundle}.cache`));
  inFixedPlace('npm', 'prune', '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error');
}

/** Runs a program in the tree, which has a fixed path for it: source maps contain paths. */
function inFixedPlace(...command: string[]): void {
  const enter = 'mount --bind "$1" /srv; cd /srv; shift; exec "$@"';
  execFileSync('unshare', ['--mount', '--propagation', 'private', 'sh', '-ec', enter, 'sh', tree, ...command], {
    env: { ...process.env, PATH: `/srv/node_modules/.bin:${process.env.PATH}`, NODE_OPTIONS: '' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** The chart and the packages of the clients, which are for all processors. */
async function copyPackages(): Promise<void> {
  for (const file of fs.readdirSync(path.join(tree, 'clients/dist'))) {
    if (file !== 'SHA256SUMS') fs.copyFileSync(path.join(tree, 'clients/dist', file), path.join(out, file));
  }
  const chart = path.join(tree, 'ops/helm/sandbox-platform');
  const archive = path.join(out, `sandbox-platform-chart-${version}.tgz`);
  await packFolder(chart, archive, { seconds, inside: 'sandbox-platform' });
}

function writeChecksums(): void {
  const hash = (file: string) =>
    createHash('sha256')
      .update(fs.readFileSync(path.join(out, file)))
      .digest('hex');
  const lines = fs.readdirSync(out).map((file) => `${hash(file)}  ${file}\n`);
  fs.writeFileSync(path.join(out, 'SHA256SUMS'), lines.join(''));
}

function report(text: string): void {
  console.log(text);
}
