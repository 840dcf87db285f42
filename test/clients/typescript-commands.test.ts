import { readFileSync } from 'node:fs';
import path from 'node:path';
import { buffer, json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CreateOptions, Sandbox, type SandboxError } from '../../clients/typescript/src/index.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';

/** What the programs of an agent's author do with commands, ports and git, against the whole platform. */
let platform: RunningPlatform;
let options: CreateOptions;
let sandbox: Sandbox;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  options = { apiUrl: platform.env.PLATFORM_URL, apiKey: platform.env.PLATFORM_API_KEY! };
  sandbox = await Sandbox.create(options);
}, 300_000);

afterAll(async () => {
  await sandbox?.terminate();
  await platform?.leave();
}, 300_000);

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing was thrown',
    (error: SandboxError) => error.code,
  );

const isRunning = async (pattern: string) => (await sandbox.commands.run(['pgrep', '-f', pattern])).exitCode === 0;

describe('a background command', () => {
  test('has its output, exit code and result after its pieces were read', async () => {
    const handle = await sandbox.commands.run('echo one; echo two >&2; exit 3', { background: true });
    const pieces: string[] = [];
    for await (const { from, bytes } of handle) pieces.push(`${from} ${Buffer.from(bytes)}`);
    expect(pieces.sort()).toEqual(['stderr two\n', 'stdout one\n']);
    const result = { exitCode: 3, stdout: 'one\n', stderr: 'two\n' };
    expect(handle).toMatchObject(result);
    expect(await handle.wait()).toEqual({ ...result, truncated: false });
    expect(await handle.wait()).toEqual({ ...result, truncated: false });
    expect(await handle.kill()).toBe(false);
  });

  test('calls its listeners, and is killed after its time, though nobody waits', async () => {
    const heard: string[] = [];
    const listener = { onStdout: (text: string) => void heard.push(text) };
    const handle = await sandbox.commands.run('echo heard; exec sleep 981', {
      ...{ background: true, timeoutMs: 500 },
      ...listener,
    });
    expect(handle.exitCode).toBeNull();
    await until(() => handle.exitCode !== null);
    expect(handle).toMatchObject({ exitCode: 137, stdout: 'heard\n' });
    expect(heard).toEqual(['heard\n']);
    expect(await codeOf(handle.wait())).toBe('timed_out');
  });

  test('ends while nobody reads its output, and the reader gets all of it later', async () => {
    const handle = await sandbox.commands.run('seq 1 1000000; exit 4', { background: true });
    await until(() => handle.exitCode === 4);
    const sizes: number[] = [];
    for await (const { bytes } of handle) sizes.push(bytes.length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(6_888_896);
    expect(handle.stdout.length).toBe(6_888_896);
  });

  test('is found again by pid and by tag after its end', async () => {
    const handle = await sandbox.commands.run('echo seen; exit 6', { background: true, tag: 'found-again' });
    await handle.wait();
    for (const process of [handle.pid, { tag: 'found-again' }]) {
      const found = await sandbox.commands.connect(process);
      expect(await found.wait()).toMatchObject({ exitCode: 6 });
      expect(found.pid).toBe(handle.pid);
    }
    expect(await codeOf(sandbox.commands.connect({ tag: 'never' }))).toBe('not_found');
  });

  test('ends when its input is closed', async () => {
    const handle = await sandbox.commands.run('sort', { background: true, stdin: 'open' });
    await handle.sendStdin('b\na\n');
    await handle.closeStdin();
    expect(await handle.wait()).toMatchObject({ exitCode: 0, stdout: 'a\nb\n' });
    expect(await codeOf(handle.closeStdin())).toBe('not_found');
  });
});

describe('a command', () => {
  test('ends with its shell, and its background job lives on', async () => {
    const result = await sandbox.commands.run('sleep 982 & echo ok', { timeoutMs: 20_000 });
    expect(result).toEqual({ exitCode: 0, stdout: 'ok\n', stderr: '', truncated: false });
    expect(await isRunning('^sleep 982')).toBe(true);
  });

  test('is killed after its time without a daemon that it has left', async () => {
    expect(await codeOf(sandbox.commands.run('setsid sleep 983 & exec sleep 984', { timeoutMs: 1000 }))).toBe(
      'timed_out',
    );
    expect(await isRunning('^sleep 983')).toBe(true);
    expect(await isRunning('^sleep 984')).toBe(false);
  });

  test('reads input of any size, or a part of it', async () => {
    const input = Buffer.alloc(20_000_000, 'line\n');
    expect((await sandbox.commands.run('wc -c', { stdin: input })).stdout.trim()).toBe('20000000');
    expect((await sandbox.commands.run('head -1', { stdin: input })).stdout).toBe('line\n');
    expect((await sandbox.commands.run(['cat'], { stdin: '' })).stdout).toBe('');
  });

  test('runs as another user', async () => {
    await sandbox.commands.run('useradd --create-home ada', { check: true });
    const { stdout } = await sandbox.commands.run('id -un; pwd; echo "$HOME"; cat', { user: 'ada', stdin: 'typed' });
    expect(stdout).toBe('ada\n/home/ada\n/home/ada\ntyped');
    expect((await sandbox.commands.run('touch /root/x', { user: 'ada' })).exitCode).not.toBe(0);
    const terminal = await sandbox.pty.start({ command: ['id', '-un'], user: 'ada' });
    let shown = '';
    for await (const bytes of terminal) shown += Buffer.from(bytes);
    expect([shown, terminal.exitCode]).toEqual(['ada\r\n', 0]);
    expect(await codeOf(sandbox.commands.run('true', { user: 'nobody-here' }))).toBe('invalid_argument');
  });
});

test('a request without a reply ends after its time', async () => {
  await sandbox.commands.run('sleep 985', { background: true, stdin: 'open', tag: 'deaf' });
  const deaf = await sandbox.commands.connect({ tag: 'deaf' });
  const never = deaf.sendStdin(Buffer.alloc(1_000_000), { requestTimeoutMs: 300 });
  await expect(never).rejects.toMatchObject({ code: 'timed_out', message: expect.stringContaining('within 300 ms') });
});

test('a restart ends the processes and keeps the files, and metrics have its use', async () => {
  const own = await Sandbox.create(options);
  await own.files.write('/root/kept', 'kept');
  await own.commands.run('sleep 986', { background: true });
  await own.restart();
  expect(await own.commands.list()).toEqual([]);
  expect(await own.files.read('/root/kept')).toBe('kept');
  await until(async () => (await own.metrics()).length > 0);
  const [metrics] = await own.metrics();
  expect(metrics).toMatchObject({ cpu_count: 2, mem_total: expect.any(Number), mem_used: expect.any(Number) });
  expect(await own.metrics({ start: new Date(0), end: new Date(1000), stepSeconds: 60 })).toEqual([]);
  await own.terminate();
});

describe('ports', () => {
  test('waitFor returns the URL as soon as a server listens', async () => {
    const waiting = sandbox.ports.waitFor(8400);
    await sandbox.commands.run('sleep 1; exec python3 -m http.server 8400 --bind 127.0.0.1', { background: true });
    const url = await waiting;
    expect(url).toBe(sandbox.ports.url(8400));
    const reply = await sandbox.ports.request(8400);
    expect([reply.status, String(await buffer(reply.body))]).toEqual([
      200,
      expect.stringContaining('Directory listing'),
    ]);
  });

  test('waitFor takes every reply of a server, also one that is no HTTP', async () => {
    const server = (port: number, reply: string) =>
      `import socket; s = socket.create_server(("", ${port}))\nwhile True: c = s.accept()[0]; c.recv(9999); c.sendall(b"${reply}"); c.close()`;
    await sandbox.commands.run(['python3', '-c', server(8401, 'HTTP/1.1 401 No\\r\\n\\r\\n')], { background: true });
    await sandbox.commands.run(['python3', '-c', server(8402, 'SSH-2.0\\r\\n')], { background: true });
    const urls = await Promise.all([8401, 8402].map((port) => sandbox.ports.waitFor(port)));
    expect(urls).toEqual([8401, 8402].map((port) => sandbox.ports.url(port)));
  });

  test('waitFor ends with its time, its signal and the sandbox', async () => {
    expect(await codeOf(sandbox.ports.waitFor(8403, { timeoutMs: 300 }))).toBe('timed_out');
    await expect(sandbox.ports.waitFor(8403, { signal: AbortSignal.timeout(100) })).rejects.toThrow(/timeout|aborted/i);
    const own = await Sandbox.create(options);
    await own.pause();
    expect(await codeOf(own.ports.waitFor(8000))).toBe('sandbox_not_running');
    await own.terminate();
  });
});

test('git clones with a token that is stored nowhere and that no other server gets, and commits and pushes', async () => {
  await sandbox.files.write('/srv/git-server.py', readFileSync(path.join(import.meta.dirname, 'git-server.py')));
  const prepare = `git init --quiet --bare -b main /srv/git/app.git && git -C /srv/git/app.git config http.receivepack true
    git init --quiet -b main /srv/first && cd /srv/first && echo one > one && git add . &&
    git -c user.name=x -c user.email=x@x commit --quiet -m first && git push --quiet /srv/git/app.git main`;
  await sandbox.commands.run(prepare, { check: true });
  for (const port of [8410, 8411]) {
    await sandbox.commands.run(`exec python3 /srv/git-server.py ${port} /srv/git`, { background: true });
    await sandbox.ports.waitFor(port);
  }
  const url = 'http://127.0.0.1:8410/app.git';
  expect(await codeOf(sandbox.git.clone(url, { path: '/root/app' }))).toBe('command_failed');
  await sandbox.git.clone(url, { path: '/root/app', token: 'secret-token', branch: 'main', depth: 1 });
  expect(await sandbox.git.status('/root/app')).toEqual({ branch: 'main', ahead: 0, behind: 0, files: [] });
  await sandbox.files.write('/root/app/new file', 'two');
  await sandbox.files.write('/root/app/one', 'changed');
  expect((await sandbox.git.status('/root/app')).files).toEqual([
    { path: 'one', staged: ' ', unstaged: 'M' },
    { path: 'new file', staged: '?', unstaged: '?' },
  ]);
  const author = 'Ada Lovelace <ada@example.com>';
  const commit = await sandbox.git.commit('/root/app', 'Only one\n\n"quoted" $HOME', { author, files: ['one'] });
  expect((await sandbox.git.status('/root/app')).files).toEqual([{ path: 'new file', staged: '?', unstaged: '?' }]);
  await sandbox.git.commit('/root/app', 'The rest', { author });
  await sandbox.commands.run('git -C /root/app mv one two', { check: true });
  expect(await sandbox.git.status('/root/app')).toEqual({
    ...{ branch: 'main', ahead: 2, behind: 0 },
    files: [{ path: 'two', staged: 'R', unstaged: ' ' }],
  });
  expect(await codeOf(sandbox.git.push('/root/app'))).toBe('command_failed');
  await sandbox.git.push('/root/app', { token: 'secret-token' });
  const log = await sandbox.commands.run(['git', '-C', '/srv/git/app.git', 'log', '--format=%H %an <%ae> %B', 'main']);
  expect(log.stdout).toContain(`${commit} ${author} Only one\n\n"quoted" $HOME`);

  // A repository of another name on the same server.
  const renamed = 'http://127.0.0.1:8410/to/8410/app.git';
  await sandbox.git.clone(renamed, { path: '/root/renamed', token: 'secret-token' });
  await sandbox.git.push('/root/renamed', { token: 'secret-token' });
  await sandbox.git.push('/root/renamed', { token: 'secret-token', remote: '/srv/git/app.git' });
  for (const to of ['to', 'then-to']) {
    const elsewhere = `http://127.0.0.1:8410/${to}/8411/app.git`;
    const given = { path: '/root/elsewhere', token: 'secret-token' };
    expect(await codeOf(sandbox.git.clone(elsewhere, given))).toBe('command_failed');
    expect(await codeOf(sandbox.git.push('/root/app', { ...given, remote: elsewhere }))).toBe('command_failed');
    await sandbox.commands.run(['git', '-C', '/root/app', 'remote', 'set-url', 'origin', elsewhere], { check: true });
    expect(await codeOf(sandbox.git.push('/root/app', { token: 'secret-token' }))).toBe('command_failed');
  }
  const { body } = await sandbox.ports.request(8411, '/seen');
  const { requests, authorized } = (await json(body)) as { requests: number; authorized: number };
  // Each command, and the first look of `waitFor`.
  expect([requests > 6, authorized]).toEqual([true, 0]);

  const found = await sandbox.commands.run([
    'grep',
    '-rl',
    '--exclude=git-server.py',
    'secret-token',
    '/root',
    '/srv',
    '/tmp',
    '/home',
  ]);
  expect(found.stdout).toBe('');
});
