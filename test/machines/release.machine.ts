import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { BareMachine } from './bare-machine.ts';

/**
 * Makes a release of the last commit, twice, and runs it on a Debian that has no Node, npm and Go. Then a machine with the
 * last release is upgraded to it. The last release is made from the newest tag. Until there is a tag, it is the same commit
 * with a lower version: the test then shows how an upgrade is done, and not that it understands older data.
 */
const root = path.resolve(import.meta.dirname, '../..');
const run = promisify(execFile);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-release-'));
const dataDir = '/var/lib/sandbox-platform';
const settings = { PLATFORM_DATA_DIR: dataDir, PLATFORM_WARM_POOL_SIZE: '0', PLATFORM_IMAGES_AHEAD: 'none' };
const git = (...words: string[]) => execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim();
const { version } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const limitMs = 3600_000;

let made: string;
let machine: BareMachine | undefined;

beforeAll(async () => {
  made = await makeRelease(root, 'first');
}, limitMs);

afterEach(async () => {
  const remains = await machine?.remove(dataDir);
  machine = undefined;
  expect(remains ?? []).toEqual([]);
}, 120_000);

afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

/** Makes the release of a folder's last commit. @returns the folder of its files */
async function makeRelease(source: string, name: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const out = path.join(folder, name);
  await run('npm', ['run', 'release', '--', '--out', out], {
    cwd: source,
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    maxBuffer: 16 << 20,
  });
  return out;
}

/** A copy of the repository at the last release. @returns its version, too */
function copyOfLastRelease(): { source: string; lastVersion: string } {
  const source = path.join(folder, 'last');
  const [tag] = git('tag', '--list', 'v*', '--sort=-version:refname').split('\n').filter(Boolean);
  const commit = tag ?? git('rev-parse', 'HEAD');
  git('clone', '--quiet', '--no-checkout', root, source);
  const inCopy = (...words: string[]) => execFileSync('git', words, { cwd: source });
  inCopy('checkout', '--quiet', commit);
  if (tag) return { source, lastVersion: tag.slice(1) };
  const lastVersion = '0.0.9';
  execFileSync('npm', ['version', lastVersion, '--no-git-tag-version'], { cwd: source });
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
  inCopy(...author, 'commit', '--quiet', '--all', '--message', `Version ${lastVersion}`);
  return { source, lastVersion };
}

/** Unpacks a release on the machine. @returns its folder there */
async function unpack(on: BareMachine, files: string, itsVersion: string): Promise<string> {
  const archive = `sandbox-platform-${itsVersion}-linux-${process.arch}.tar.gz`;
  fs.copyFileSync(path.join(files, archive), on.file(`/root/${archive}`));
  await on.run(`tar -xzf /root/${archive} -C /opt`);
  return `/opt/sandbox-platform-${itsVersion}`;
}

async function output(sandbox: SandboxView, command: string): Promise<string> {
  const api = machine!.client(dataDir);
  const target = `/v1/sandboxes/${sandbox.sandbox_id}/exec`;
  const { body } = await api.request('POST', target, { command, wait: true });
  return (body as unknown as { stdout: string }).stdout;
}

test(
  'a second build with empty caches, another place, umask, language and time zone gives the same bytes',
  async () => {
    const env = { PLATFORM_CACHE_DIR: path.join(folder, 'cache'), LC_ALL: 'C.UTF-8', TZ: 'Asia/Tokyo' };
    const umask = process.umask(0o077);
    try {
      const again = await makeRelease(root, 'elsewhere/again', env);
      const sums = fs.readFileSync(path.join(made, 'SHA256SUMS'), 'utf8');
      expect(sums.split('\n')).toHaveLength(8);
      expect(fs.readFileSync(path.join(again, 'SHA256SUMS'), 'utf8')).toBe(sums);
      fs.rmSync(again, { recursive: true });
    } finally {
      process.umask(umask);
    }
  },
  limitMs,
);

test(
  'the release runs on a bare Debian, where only packages of the distribution are installed',
  async () => {
    const archive = path.join(made, `sandbox-platform-${version}-linux-${process.arch}.tar.gz`);
    expect(fs.statSync(archive).size).toBeLessThan(250e6);
    machine = await BareMachine.make();
    const programs = 'for name in node npm go xz zstd curl; do command -v $name; done; true';
    expect(await machine.run(programs)).toBe('');
    const unpackedMs = Date.now();
    const release = await unpack(machine, made, version);
    const readyMs = await machine.start(release, settings);
    const installed = machine.output.match(/apt-get install .*/)?.[0] ?? '';
    expect(installed).toContain('skopeo');
    expect(installed).not.toMatch(/docker-registry|nodejs|golang/);

    const api = machine.client(dataDir);
    const sandbox = await api.createSandbox({ name: 'first' });
    expect(await output(sandbox, 'echo hello from $(cat /etc/hostname); python3 -c "print(6 * 7)"')).toBe(
      `hello from ${sandbox.sandbox_id}\n42\n`,
    );
    console.log(
      `from the tarball to the first output of a sandbox: ${((Date.now() - unpackedMs) / 1000).toFixed(1)} s, ` +
        `of which ${(readyMs / 1000).toFixed(1)} s are the start\n${machine.output}`,
    );
    await api.deleteSandbox(sandbox.sandbox_id);
    const hosts = JSON.parse(
      await machine.run(`PLATFORM_DATA_DIR=${dataDir} ${release}/sandbox-platform admin list-hosts`),
    );
    expect(hosts).toHaveLength(1);
    // A second start has nothing to install.
    await machine.stop();
    await machine.start(release, settings);
    expect(machine.output).not.toContain('Set-up');
  },
  limitMs,
);

test(
  'an upgrade from the last release keeps sandboxes, their files and processes, and keys',
  async () => {
    const { source, lastVersion } = copyOfLastRelease();
    const last = await makeRelease(source, 'last-release');
    machine = await BareMachine.make();
    await machine.start(await unpack(machine, last, lastVersion), settings);
    const before = machine.client(dataDir);
    const running = await before.createSandbox({ name: 'running', timeout: 3600 });
    const paused = await before.createSandbox({ name: 'paused', timeout: 3600 });
    const begin = 'echo written before > /root/note; nohup sleep 86400 > /dev/null 2>&1 & echo $!';
    const pids = new Map<SandboxView, string>();
    for (const sandbox of [running, paused]) pids.set(sandbox, (await output(sandbox, begin)).trim());
    expect((await before.request('POST', `/v1/sandboxes/${paused.sandbox_id}/pause`)).status).toBe(200);
    await machine.stop();

    await machine.start(await unpack(machine, made, version), settings);
    // The key is the one from before.
    expect((await before.sandbox(running.sandbox_id)).status).toBe('running');
    expect((await before.sandbox(paused.sandbox_id)).status).toBe('paused');
    expect((await before.request('POST', `/v1/sandboxes/${paused.sandbox_id}/resume`)).status).toBe(200);
    for (const [sandbox, pid] of pids) {
      const seen = `cat /root/note; tr '\\0' ' ' < /proc/${pid}/cmdline`;
      expect(await output(sandbox, seen)).toBe('written before\nsleep 86400 ');
    }
    const created = await before.createSandbox({ name: 'after', timeout: 3600 });
    expect(await output(created, 'echo new')).toBe('new\n');
    for (const { sandbox_id } of [running, paused, created]) await before.deleteSandbox(sandbox_id);
  },
  limitMs,
);
