import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { releaseVersion } from '../../platform/config/release.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { neededWheels } from './installed-python.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');
const npmClient = `sandbox-platform-client-${releaseVersion}.tgz`;
const npmMcp = `sandbox-platform-mcp-${releaseVersion}.tgz`;
const wheel = `sandbox_platform_client-${releaseVersion}-py3-none-any.whl`;

/** The packages that the running platform serves, installed with the real npm and pip into new folders. */
let platform: RunningPlatform;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'served-packages-'));

beforeAll(async () => {
  platform = await RunningPlatform.shared();
}, 300_000);

afterAll(async () => {
  await platform?.leave();
  fs.rmSync(dir, { recursive: true, force: true });
}, 300_000);

const urlOf = (name: string) => `${platform.env.PLATFORM_URL}/clients/${name}`;
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

function newFolder(name: string): string {
  const folder = path.join(dir, name);
  fs.mkdirSync(folder);
  return folder;
}

/** Runs a program with the URL and the key of the platform. @returns its output */
async function runInstalled(file: string, args: string[], cwd: string): Promise<string> {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  const env = { ...process.env, NODE_OPTIONS: '', PLATFORM_URL, PLATFORM_API_KEY };
  return (await run(file, args, { cwd, env, timeout: 100_000 })).stdout;
}

test('each file has its type and its checksum, and is not sent again to who has it', async () => {
  const sums = await (await fetch(urlOf('SHA256SUMS'))).text();
  const listed = [...sums.matchAll(/^(\w{64}) {2}(.+)$/gm)].map(([, sum, name]) => [name, sum]);
  expect(listed.map(([name]) => name)).toEqual([npmClient, npmMcp, wheel]);
  for (const [name, sum] of listed) {
    const reply = await fetch(urlOf(name!));
    const bytes = Buffer.from(await reply.arrayBuffer());
    expect([name, reply.status, sha256(bytes)]).toEqual([name, 200, sum]);
    const type = name!.endsWith('.whl') ? 'application/zip' : 'application/gzip';
    expect([name, reply.headers.get('content-type'), reply.headers.get('etag')]).toEqual([name, type, `"${sum}"`]);
    const again = await fetch(urlOf(name!), { headers: { 'if-none-match': `W/"${sum}"` } });
    expect([name, again.status, await again.text()]).toEqual([name, 304, '']);
    const head = await fetch(urlOf(name!), { method: 'HEAD' });
    expect([name, head.status, head.headers.get('content-length')]).toEqual([name, 200, String(bytes.length)]);
  }
  const newest = await fetch(urlOf('sandbox-platform-client.tgz'));
  expect(newest.headers.get('etag')).toBe(`"${listed[0]![1]}"`);
  await newest.body?.cancel();
});

test.each(['unknown.tgz', '..%2fbuild.mjs', '..', '.made', '%00', '__proto__'])(
  'nothing else is served: %s',
  async (name) => {
    const reply = await fetch(urlOf(name));
    expect([reply.status, (await reply.text()).includes('import ')]).toEqual([name === '..' ? 200 : 404, false]);
  },
);

test('the gateway does not serve the packages', async () => {
  const reply = await fetch(`${platform.env.PLATFORM_GATEWAY}/clients/${npmClient}`);
  await reply.body?.cancel();
  expect(reply.status).not.toBe(200);
});

const use = `const sandbox = await Sandbox.create();
const { stdout } = await sandbox.commands.run('echo from a sandbox');
await sandbox.terminate();
console.log(stdout.trim());`;

test('npm installs the client from the platform; it can be imported and required, with types', async () => {
  const project = newFolder('npm');
  await run('npm', ['init', '--yes'], { cwd: project });
  await run('npm', ['install', '--no-audit', '--no-fund', urlOf('sandbox-platform-client.tgz')], { cwd: project });
  const write = (name: string, source: string) => fs.writeFileSync(path.join(project, name), source);
  write('imports.mjs', `import { Sandbox } from '@sandbox-platform/client';\n${use}\n`);
  write('requires.cjs', `const { Sandbox } = require('@sandbox-platform/client');\n(async () => {\n${use}\n})();\n`);
  for (const file of ['imports.mjs', 'requires.cjs']) {
    expect([file, await runInstalled(process.execPath, [file], project)]).toEqual([file, 'from a sandbox\n']);
  }
  const typed = 'export const id: Promise<string> = Sandbox.create().then((sandbox) => sandbox.id);';
  write('imports.mts', `import { Sandbox } from '@sandbox-platform/client';\n${typed}\n`);
  write(
    'requires.cts',
    `import client = require('@sandbox-platform/client');\nimport Sandbox = client.Sandbox;\n${typed}\n`,
  );
  const options = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2023,esnext.disposable',
  ];
  const types = ['--types', 'node', '--typeRoots', path.join(root, 'node_modules/@types')];
  await run(path.join(root, 'node_modules/.bin/tsc'), [...options, ...types, 'imports.mts', 'requires.cts'], {
    cwd: project,
  });
  const version = await runInstalled(path.join(project, 'node_modules/.bin/sandbox-platform'), ['--version'], project);
  expect(version).toBe(`${releaseVersion}\n`);
}, 120_000);

test('npm installs the MCP server from the platform', async () => {
  const project = newFolder('mcp');
  await run('npm', ['init', '--yes'], { cwd: project });
  await run('npm', ['install', '--no-audit', '--no-fund', urlOf(npmMcp)], { cwd: project });
  const help = await runInstalled(path.join(project, 'node_modules/.bin/sandbox-platform-mcp'), ['--help'], project);
  expect(help).toMatch(/^sandbox-platform-mcp /);
}, 120_000);

test('pip installs the client from the platform, by its address and from the list', async () => {
  const project = newFolder('pip');
  const wheels = await neededWheels();
  for (const [index, wanted] of [[urlOf(wheel)], ['--find-links', urlOf(''), 'sandbox-platform-client']].entries()) {
    const venv = path.join(project, `venv-${index}`);
    await run('python3', ['-m', 'venv', venv]);
    const pip = (...args: string[]) => run(path.join(venv, 'bin/pip'), ['--disable-pip-version-check', ...args]);
    await pip('install', '--no-cache-dir', '--no-index', '--find-links', wheels, ...wanted);
    expect((await pip('check')).stdout).toContain('No broken requirements found');
    const program = `from sandbox_platform import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.commands.run("echo from a sandbox").stdout, end="")`;
    expect(await runInstalled(path.join(venv, 'bin/python'), ['-c', program], project)).toBe('from a sandbox\n');
  }
}, 120_000);

test('the same sources give the same bytes', async () => {
  const again = path.join(dir, 'again');
  await run(process.execPath, [path.join(root, 'clients/build.mjs'), '--out', again]);
  expect(fs.readFileSync(path.join(again, 'SHA256SUMS'), 'utf8')).toBe(await (await fetch(urlOf('SHA256SUMS'))).text());
}, 60_000);
