import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type CreateOptions, Sandbox } from '../../clients/typescript/src/index.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { ProjectWithClient } from './packed-client.ts';

/** Folders between this machine and real sandboxes, by the client and by its packed command line. */
let platform: RunningPlatform;
let options: CreateOptions;
let sandbox: Sandbox;
let project: ProjectWithClient;
let dir: string;

beforeAll(async () => {
  [project, platform] = await Promise.all([ProjectWithClient.make(), RunningPlatform.shared()]);
  options = { apiUrl: platform.env.PLATFORM_URL, apiKey: platform.env.PLATFORM_API_KEY! };
  sandbox = await Sandbox.create(options);
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'folder-copies-'));
}, 300_000);

afterAll(async () => {
  project?.remove();
  fs.rmSync(dir, { recursive: true, force: true });
  await platform?.leave();
}, 300_000);

const env = () => ({
  ...{ ...process.env, NODE_OPTIONS: '' },
  ...{ PLATFORM_URL: options.apiUrl!, PLATFORM_API_KEY: options.apiKey! },
});

/** Starts the packed command line. */
function start(...args: string[]): ChildProcess {
  const script = path.join(project.dir, 'node_modules/@sandbox-platform/client/dist/cli/main.js');
  return spawn(process.execPath, [script, ...args], { env: env(), stdio: ['pipe', 'pipe', 'pipe'] });
}

async function cli(args: string[], input: string | Buffer = ''): Promise<{ out: string; err: string; status: number }> {
  const running = start(...args);
  running.stdin!.end(input);
  const exited = new Promise<number>((resolve) => running.once('close', resolve));
  const [out, err, status] = await Promise.all([text(running.stdout!), text(running.stderr!), exited]);
  return { out, err, status };
}

/** Everything below a folder, with what a copy keeps: the mode, the time, and the content. */
function tree(folder: string, name = ''): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const entry of fs.readdirSync(path.join(folder, name), { withFileTypes: true })) {
    const below = path.join(name, entry.name);
    const full = path.join(folder, below);
    const stat = fs.lstatSync(full);
    const facts = [stat.mode, stat.mtimeMs];
    if (entry.isDirectory()) Object.assign(found, { [below]: facts }, tree(folder, below));
    else if (entry.isSymbolicLink()) found[below] = [...facts, fs.readlinkSync(full)];
    else if (entry.isFile()) found[below] = [...facts, hashOf(fs.readFileSync(full))];
  }
  return found;
}
const filesOf = (found: Record<string, unknown>) =>
  Object.entries(found).filter(([, facts]) => (facts as []).length > 2);
const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Times are kept to the microsecond, so these are the same afterwards. */
const setTimes = (folder: string) =>
  execFileSync('find', [folder, '-exec', 'touch', '-h', '-d', '@1500000000.5', '{}', '+']);

/** Modes without the bits that a umask of 022 takes. */
function makeTree(folder: string): void {
  fs.mkdirSync(path.join(folder, 'empty'), { recursive: true });
  fs.mkdirSync(path.join(folder, 'with space/ü'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'with space/ü/line\nbreak'), 'content', { mode: 0o640 });
  fs.writeFileSync(path.join(folder, 'zero'), '', { mode: 0o755 });
  fs.writeFileSync(path.join(folder, 'large'), randomBytes(3_000_000), { mode: 0o400 });
  fs.writeFileSync(path.join(folder, 'n'.repeat(250)), 'long name');
  fs.truncateSync(path.join(folder, 'n'.repeat(250)), 20_000_000);
  fs.symlinkSync('/nowhere', path.join(folder, 'absolute'));
  fs.symlinkSync('../outside', path.join(folder, 'up'));
  setTimes(folder);
  fs.utimesSync(path.join(folder, 'zero'), 1e9 + 0.25, 1e9 + 0.25);
  fs.lutimesSync(path.join(folder, 'up'), 1e9, 1e9);
  fs.chmodSync(path.join(folder, 'empty'), 0o700);
  fs.utimesSync(path.join(folder, 'with space'), 2e9, 2e9);
}

test('the client copies a folder there and back with modes, times, links, holes and names of every kind', async () => {
  const source = path.join(dir, 'source');
  makeTree(source);
  execFileSync('mkfifo', [path.join(source, 'pipe')]);
  const seen: string[] = [];
  const counts = { files: 4, folders: 3, links: 2, bytes: 23_000_007 };
  const onProgress = ({ name }: { name: string }) => void seen.push(name);
  expect(await sandbox.files.uploadFolder(source, 'sent', { onProgress })).toEqual({ ...counts, skipped: 1 });
  expect(seen).toContain('with space/ü/line\nbreak');
  const { stdout } = await sandbox.commands.run("mkfifo sent/pipe; stat -c '%a %u %Y' sent/zero sent/empty sent/large");
  expect(stdout).toMatch(/^755 0 1000000000\n700 0 \d+\n400 0 \d+\n$/);
  const back = path.join(dir, 'not/there/back');
  expect(await sandbox.files.downloadFolder('/root/sent', back)).toEqual({ ...counts, skipped: 1 });
  expect(tree(back)).toEqual(tree(source));
  // Again, over what is there.
  expect(await sandbox.files.downloadFolder('~/sent', back)).toEqual({ ...counts, skipped: 1 });
  // The new files change the times of their folders.
  const filesOf = (found: Record<string, unknown>) =>
    Object.entries(found).filter(([, facts]) => (facts as []).length > 2);
  expect(filesOf(tree(back))).toEqual(filesOf(tree(source)));
  await expect(sandbox.files.uploadFolder(path.join(source, 'zero'), 'x')).rejects.toThrow('is not a folder');
  await expect(sandbox.files.downloadFolder('/root/none', back)).rejects.toMatchObject({ code: 'not_found' });
}, 300_000);

test('an exception of `onProgress` ends a copy of a folder, in both directions, and reaches the caller', async () => {
  await sandbox.commands.run('mkdir told && head -c 9000000 /dev/zero > told/large');
  const own = new Error('enough');
  const onProgress = () => {
    throw own;
  };
  const back = path.join(dir, 'told');
  await expect(sandbox.files.downloadFolder('told', back, { onProgress })).rejects.toBe(own);
  expect(fs.existsSync(path.join(back, 'large'))).toBe(false);
  await sandbox.files.downloadFolder('told', back);
  await expect(sandbox.files.uploadFolder(back, 'sent back', { onProgress })).rejects.toBe(own);
  expect(await sandbox.files.exists('sent back/large')).toBe(false);
}, 60_000);

test('the client writes many files with one request, and reads a file as a stream', async () => {
  await sandbox.files.writeMany([
    { path: '/root/many/new/a.txt', data: 'a' },
    { path: 'many/run.sh', data: '#!/bin/sh\necho ran', mode: 0o755 },
    { path: '~/many/bytes', data: new Uint8Array(3_000_000).fill(7) },
  ]);
  expect((await sandbox.commands.run('cat many/new/a.txt; many/run.sh; wc -c < many/bytes')).stdout).toBe(
    'aran\n3000000\n',
  );
  let length = 0;
  for await (const piece of sandbox.files.readStream('many/bytes')) length += piece.length;
  expect(length).toBe(3_000_000);
  for await (const piece of sandbox.files.readStream('many/bytes')) {
    expect(piece[0]).toBe(7);
    break;
  }
  await expect(sandbox.files.readStream('/root/none').next()).rejects.toMatchObject({ code: 'not_found' });
}, 300_000);

test('cp keeps modes, times and links of folders and files, and reports what it leaves out', async () => {
  const source = path.join(dir, 'cp source');
  makeTree(source);
  expect(await cli(['cp', source, `${sandbox.id}:/root/cp/`])).toMatchObject({ status: 0, err: '' });
  const back = path.join(dir, 'cp back');
  const copied = await cli(['cp', `${sandbox.id}:/root/cp/cp source`, back, '--json']);
  expect(copied).toMatchObject({ status: 0, err: '' });
  expect(JSON.parse(copied.out).copied).toContain(path.join(back, 'with space/ü/line\nbreak'));
  expect(tree(back)).toEqual(tree(source));

  expect(await cli(['cp', path.join(source, 'zero'), `${sandbox.id}:/root/one`])).toMatchObject({ out: '/root/one\n' });
  const one = path.join(dir, 'one');
  expect(await cli(['cp', `${sandbox.id}:/root/one`, one])).toMatchObject({ out: `${one}\n`, status: 0 });
  const { mode, mtimeMs } = fs.statSync(one);
  expect([mode & 0o7777, mtimeMs]).toEqual([0o755, 1_000_000_000_250]);

  await sandbox.commands.run('mkdir special; mkfifo special/pipe');
  const special = await cli(['cp', `${sandbox.id}:/root/special`, dir]);
  expect(special).toMatchObject({ status: 0, err: 'Not copied: 1 sockets, pipes or devices\n' });
}, 300_000);

test('cp copies 2,500 files and one of 200 MB there and back', async () => {
  const source = path.join(dir, 'much');
  for (let i = 0; i < 50; i++) {
    fs.mkdirSync(path.join(source, `${i}/sub`), { recursive: true });
    for (let j = 0; j < 50; j++) fs.writeFileSync(path.join(source, `${i}`, j % 2 ? 'sub' : '', `${j}`), `${i} ${j}`);
  }
  const large = fs.openSync(path.join(source, 'large'), 'w');
  for (let i = 0; i < 200; i++) fs.writeSync(large, randomBytes(1_000_000));
  fs.closeSync(large);
  setTimes(source);
  expect(await cli(['cp', source, `${sandbox.id}:/root/much`])).toMatchObject({ status: 0, err: '' });
  const back = path.join(dir, 'much back');
  expect(await cli(['cp', `${sandbox.id}:/root/much`, back])).toMatchObject({ status: 0, err: '' });
  expect(tree(back)).toEqual(tree(source));
  fs.rmSync(source, { recursive: true });
  fs.rmSync(back, { recursive: true });
}, 300_000);

test('cp - writes standard input and reads to standard output; a folder is a tar', async () => {
  const bytes = randomBytes(500_000).toString('latin1');
  expect(await cli(['cp', '-', `${sandbox.id}:/root/piped`], bytes)).toMatchObject({ status: 0, out: '', err: '' });
  expect((await cli(['cp', `${sandbox.id}:/root/piped`, '-'])).out === bytes).toBe(true);
  await sandbox.files.write('/root/tarred/a.txt', 'a');
  const script = `"$1" "$2" cp ${sandbox.id}:/root/tarred - | tar tf -`;
  const main = path.join(project.dir, 'node_modules/@sandbox-platform/client/dist/cli/main.js');
  const words = ['-c', script, 'sh', process.execPath, main];
  const listed = await new Promise((resolve) => execFile('sh', words, { env: env() }, (_, out) => resolve(out)));
  expect(listed).toBe('./\na.txt\n');
  expect(await cli(['cp', '-', `${sandbox.id}:/root/`], 'x')).toMatchObject({ status: 2 });
}, 300_000);

test('an interrupted cp leaves no part of a file under its name, on either side', async () => {
  const source = path.join(dir, 'endless');
  fs.mkdirSync(source);
  fs.writeFileSync(path.join(source, 'file'), '');
  fs.truncateSync(path.join(source, 'file'), 20e9);
  const up = start('cp', source, `${sandbox.id}:/root/endless`);
  const found = async () => (await sandbox.commands.run('ls -A /root/endless')).stdout;
  await until(async () => (await found()).includes('.upload-'));
  up.kill('SIGINT');
  expect(await new Promise((resolve) => up.once('exit', resolve))).toBe(130);
  await until(async () => (await found()) === '');

  await sandbox.commands.run('mkdir -p long; truncate -s 20G long/file');
  const down = start('cp', `${sandbox.id}:/root/long`, path.join(dir, 'long'));
  await until(() => fs.existsSync(path.join(dir, 'long')) && fs.readdirSync(path.join(dir, 'long')).length > 0);
  down.kill('SIGTERM');
  expect(await new Promise((resolve) => down.once('exit', resolve))).toBe(130);
  expect(fs.readdirSync(path.join(dir, 'long'))).toEqual([]);
}, 300_000);

test('sync copies what differs, removes only with --delete, and follows changes until Ctrl-C', async () => {
  const source = path.join(dir, 'synced');
  makeTree(source);
  const to = `${sandbox.id}:/root/synced`;
  const names = (out: string) => out.trim().split('\n').filter(Boolean).sort();
  expect(names((await cli(['sync', source, to])).out)).toContain('large');
  expect(await cli(['sync', source, to])).toMatchObject({ out: '', status: 0 });
  fs.writeFileSync(path.join(source, 'zero'), 'no longer');
  fs.chmodSync(path.join(source, 'large'), 0o600);
  fs.rmSync(path.join(source, 'empty'), { recursive: true });
  fs.writeFileSync(path.join(source, 'empty'), 'a file now');
  for (const name of ['zero', 'empty']) setTimes(path.join(source, name));
  await sandbox.files.write('/root/synced/only/there', 'x');
  const conflict = await cli(['sync', source, to]);
  expect([conflict.status, conflict.err]).toEqual([1, expect.stringContaining('is a directory')]);
  const deleted = await cli(['sync', source, to, '--delete']);
  expect([deleted.status, names(deleted.out)]).toEqual([
    0,
    expect.arrayContaining(['empty', 'removed empty', 'removed only']),
  ]);
  await sandbox.files.downloadFolder('synced', path.join(dir, 'synced back'));
  expect(filesOf(tree(path.join(dir, 'synced back')))).toEqual(filesOf(tree(source)));

  const watching = start('sync', source, to, '--watch', '--delete');
  let shown = '';
  watching.stderr!.on('data', (chunk) => {
    shown += chunk;
  });
  await until(() => shown.includes('Watching'));
  fs.mkdirSync(path.join(source, 'a/b/c'), { recursive: true });
  fs.writeFileSync(path.join(source, 'a/b/c/deep'), 'deep');
  await until(async () => (await sandbox.files.read('synced/a/b/c/deep').catch(() => '')) === 'deep');
  fs.rmSync(path.join(source, 'a'), { recursive: true });
  fs.renameSync(path.join(source, 'zero'), path.join(source, 'moved'));
  await until(async () => !(await sandbox.files.exists('synced/a')) && (await sandbox.files.exists('synced/moved')));
  watching.kill('SIGINT');
  expect(await new Promise((resolve) => watching.once('exit', resolve))).toBe(0);
}, 300_000);

test('sync --json prints one line after the first look and after each change, and nothing else', async () => {
  const source = path.join(dir, 'synced as json');
  fs.mkdirSync(source);
  fs.writeFileSync(path.join(source, 'first'), 'first');
  fs.writeFileSync(path.join(source, 'line\nbreak'), 'second');
  execFileSync('mkfifo', [path.join(source, 'pipe')]);
  const to = `${sandbox.id}:/root/synced-json`;
  const once = await cli(['sync', source, to, '--json']);
  expect(once).toMatchObject({ status: 0, err: '', out: expect.stringMatching(/^[^\n]+\n$/) });
  expect(JSON.parse(once.out)).toEqual({
    ...{ copied: expect.arrayContaining(['first', 'line\nbreak']), removed: [], skipped: 1 },
  });
  const nothing = { copied: [], removed: [], skipped: 1 };
  expect(JSON.parse((await cli(['sync', source, to, '--json'])).out)).toEqual(nothing);

  const watching = start('sync', source, to, '--json', '--watch', '--delete');
  const exited = Promise.all([
    text(watching.stderr!),
    new Promise((resolve) => watching.once('exit', (status) => resolve(status))),
  ]);
  let out = '';
  watching.stdout!.on('data', (chunk) => {
    out += chunk;
  });
  const reports = () =>
    out
      .trimEnd()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  await until(() => out.endsWith('\n'));
  expect(reports()).toEqual([nothing]);
  fs.renameSync(path.join(source, 'first'), path.join(source, 'renamed'));
  await until(() => reports().length > 1);
  expect(reports()[1]).toEqual({ copied: ['renamed'], removed: ['first'], skipped: 1 });
  watching.kill('SIGINT');
  expect(await exited).toEqual(['', 0]);
  expect(reports()).toHaveLength(2);
}, 300_000);
