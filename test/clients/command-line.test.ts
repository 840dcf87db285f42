import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as pty from '@lydell/node-pty';
import { Sandbox } from '../../clients/typescript/src/index.ts';
import { pushImage } from '../support/pushed-image.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const script = path.resolve(import.meta.dirname, '../../clients/typescript/src/cli/main.ts');

/** The command line of a user who has signed in, against the whole platform. */
let platform: RunningPlatform;
let url: string;
let key: string;
let config: string;
let sandbox: Sandbox;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  url = platform.env.PLATFORM_URL!;
  key = platform.env.PLATFORM_API_KEY!;
  config = fs.mkdtempSync(path.join(os.tmpdir(), 'command-line-'));
  sandbox = await Sandbox.create({ apiUrl: url, apiKey: key });
  expect(await cli(['login', '--url', url, '--key-stdin'], key)).toEqual([expect.stringContaining(url), '', 0]);
}, 300_000);

afterAll(async () => {
  await sandbox?.terminate();
  await platform?.leave();
  fs.rmSync(config, { recursive: true, force: true });
}, 300_000);

const environment = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...{ PATH: process.env.PATH, HOME: config, XDG_CONFIG_HOME: config, TERM: 'xterm' },
  ...more,
});

function start(args: string[], input = '', env = environment()) {
  const running = run(process.execPath, [script, ...args], { env, timeout: 90_000 });
  running.child.stdin!.end(input);
  return running;
}

/** Runs a command to its end. */
const cli = (
  args: string[],
  input = '',
  env = environment(),
): Promise<[stdout: string, stderr: string, code: number]> =>
  start(args, input, env).then(
    ({ stdout, stderr }) => [stdout, stderr, 0],
    ({ stdout, stderr, code }) => [stdout, stderr, code],
  );

const json = (...args: string[]) => jsonOf(args);

const jsonOf = async ([name, ...args]: string[], input = '') => {
  const [stdout, stderr, code] = await cli([name!, '--json', ...args], input);
  expect([name, stderr, code]).toEqual([name, '', 0]);
  return JSON.parse(stdout);
};

const profiles = () => path.join(config, 'sandbox-platform', 'profiles.json');

describe('login', () => {
  test('keeps the key in a file that only the user can read, and later commands use it', async () => {
    expect(fs.statSync(profiles()).mode & 0o777).toBe(0o600);
    expect(fs.statSync(path.dirname(profiles())).mode & 0o777).toBe(0o700);
    expect(JSON.parse(fs.readFileSync(profiles(), 'utf8')).profiles.default).toEqual({ url, api_key: key });
    expect((await cli(['ls']))[0]).toContain(sandbox.id);
  });

  test('refuses a wrong key and keeps nothing of it', async () => {
    const before = fs.readFileSync(profiles(), 'utf8');
    const refused = await cli(['login', '--url', url, '--profile', 'wrong', '--key-stdin'], 'wrong');
    expect(refused).toEqual(['', expect.stringContaining('[unauthenticated]'), 1]);
    expect(fs.readFileSync(profiles(), 'utf8')).toBe(before);
    expect((await cli(['ls', '--profile', 'wrong']))[1]).toContain('Try: sandbox-platform login');
  });

  test('with an address and a password makes a key, and logout forgets it', async () => {
    const email = 'command-line@example.com';
    const made = await fetch(`${url}/v1/user-management/users`, {
      ...{ method: 'POST', headers: { 'X-API-Key': key, 'Content-Type': 'application/json' } },
      body: JSON.stringify({ email, username: 'command-line', role: 'user' }),
    });
    const { initial_password } = ((await made.json()) as { data: { initial_password: string } }).data;
    const [stdout, stderr, code] = await cli(
      ['login', '--url', url, '--profile', 'other', '--email', email, '--key-stdin'],
      `${initial_password}\n`,
    );
    expect([stderr, code]).toEqual(['', 0]);
    expect(stdout).toContain('as profile other');
    const found = await json('keys', 'ls', '--profile', 'other');
    expect(found).toEqual([expect.objectContaining({ name: expect.stringContaining('command line on') })]);
    expect(await json('ls', '--profile', 'other')).toEqual([]);
    await cli(['logout', '--profile', 'other']);
    expect((await cli(['ls', '--profile', 'other']))[2]).toBe(1);
    expect((await cli(['ls']))[2]).toBe(0);
  });

  test('in a browser opens the console, and takes a key that was made there, or an access token, for which it makes one', async () => {
    const email = 'browser@example.com';
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
    const post = async (path: string, body: object): Promise<Record<string, string>> => {
      const reply = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
      return ((await reply.json()) as { data: Record<string, string> }).data;
    };
    const { initial_password: password } = await post('/v1/user-management/users', {
      email,
      username: 'browser',
      role: 'user',
    });
    const { access_token } = await post('/v1/auth/sign-in', { email, password });
    const login = ['login', '--url', url, '--profile', 'browser', '--browser', '--key-stdin'];
    // A program in the place of the browser notes which page is opened.
    const opened = path.join(config, 'opened');
    fs.writeFileSync(path.join(config, 'xdg-open'), `#!/bin/sh\necho "$1" > ${opened}\n`, { mode: 0o755 });
    const env = environment({ PATH: `${config}:${process.env.PATH}` });
    expect(await cli(login, access_token, env)).toEqual([
      ...[expect.stringContaining('as profile browser'), `${url}/account/sign-in\n`, 0],
    ]);
    await until(() => fs.existsSync(opened) && fs.readFileSync(opened, 'utf8') === `${url}/account/sign-in\n`);
    const { api_key } = JSON.parse(fs.readFileSync(profiles(), 'utf8')).profiles.browser;
    expect(api_key).toMatch(/^spk_/);
    expect(await json('keys', 'ls', '--profile', 'browser')).toHaveLength(1);
    expect((await cli(login, api_key, env))[2]).toBe(0);
    expect(JSON.parse(fs.readFileSync(profiles(), 'utf8')).profiles.browser.api_key).toBe(api_key);
    expect(await cli(login, 'no key', env)).toEqual(['', expect.stringContaining('no API key'), 2]);
    await cli(['logout', '--profile', 'browser']);
  });

  test('on a terminal does not show the key', async () => {
    const terminal = pty.spawn(process.execPath, [script, 'login', '--url', url], {
      ...{ cols: 200, rows: 20 },
      env: environment() as Record<string, string>,
    });
    let shown = '';
    terminal.onData((text) => {
      shown += text;
    });
    const exited = new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
    await until(() => shown.includes('API key for'));
    terminal.write(`${key}\r`);
    expect(await exited).toBe(0);
    expect(shown).toContain('Signed in');
    expect(shown).not.toContain(key);
  });

  test('a key is not sent to another platform', async () => {
    const keys: unknown[] = [];
    const other = http.createServer((request, response) => {
      keys.push(request.headers['x-api-key']);
      response.end();
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    const [, message, code] = await cli(['ls', '--url', `http://127.0.0.1:${port}`]);
    expect([code, keys]).toEqual([1, []]);
    expect(message).toContain('[not_configured]');
    other.close();
  });
});

describe('a sandbox', () => {
  test('is shown, and its time, its use and its processes are changed', async () => {
    expect(await json('info', sandbox.id)).toMatchObject({ sandbox_id: sandbox.id, status: 'running' });
    expect((await cli(['info', sandbox.id]))[0]).toMatch(/^status +running$/m);
    const { timeout_at } = await json('timeout', sandbox.id, '900');
    expect((await sandbox.info()).timeout_at).toBe(timeout_at);
    await until(async () => (await json('metrics', sandbox.id)).length > 0);
    expect((await cli(['metrics', sandbox.id]))[0]).toMatch(/^TIME +CPU_%/);
    expect(await json('restart', sandbox.id)).toEqual({ sandbox_id: sandbox.id, status: 'running' });
    expect(await cli(['exec', sandbox.id, '--user', 'nobody', '--cwd', '/', '--', 'id -un'])).toEqual([
      'nobody\n',
      '',
      0,
    ]);
  });

  test('Ctrl-C ends a command with 130, and the command in the sandbox too', async () => {
    const running = start(['exec', sandbox.id, '--', 'echo begun; exec sleep 971']);
    await new Promise((resolve) => running.child.stdout!.once('data', resolve));
    running.child.kill('SIGINT');
    await expect(running).rejects.toMatchObject({ code: 130 });
    expect((await sandbox.commands.run(['pgrep', '-f', '^sleep 971'])).exitCode).toBe(1);
  });
});

test('templates, keys, usage and webhooks are listed, made and deleted, as text and as JSON', async () => {
  const registry = await registryAddress();
  await pushImage(`http://${registry}`, 'command-line/app');
  const [id, progress] = await cli([
    'template',
    'import',
    'by-command',
    `${registry}/command-line/app`,
    '--memory',
    '256',
  ]);
  expect(progress).toMatch(/completed 100 %\n$/);
  expect(await json('template', 'info', id.trim())).toMatchObject({ name: 'by-command', default_memory_mb: 256 });
  expect((await json('template', 'ls')).map(({ name }: { name: string }) => name)).toContain('by-command');
  expect(await json('template', 'rm', id.trim())).toEqual({ template_id: id.trim() });
  expect((await cli(['template', 'ls']))[0]).not.toContain('by-command');

  const { key_id, api_key } = await json('keys', 'create', 'by command');
  const list = () => cli(['ls'], '', environment({ PLATFORM_URL: url, PLATFORM_API_KEY: api_key }));
  expect((await list())[2]).toBe(0);
  expect((await cli(['keys', 'disable', key_id]))[0]).toBe('inactive\n');
  expect(await list()).toEqual(['', expect.stringContaining('[unauthenticated]\nTry: sandbox-platform login'), 1]);
  expect((await cli(['keys', 'ls']))[0]).toMatch(new RegExp(`${key_id} .*inactive`));
  await cli(['keys', 'rm', key_id]);
  expect((await cli(['keys', 'ls']))[0]).not.toContain(key_id);

  expect((await json('usage', '--days', '1')).summary.total_sessions).toBeGreaterThan(0);
  expect((await cli(['usage', '--by', 'user_id']))[0]).toMatch(/^all +\d/m);

  const [made] = await cli(['webhooks', 'create', 'http://127.0.0.1:8099/', 'sandbox.*,template.*']);
  const [endpoint, publicKey] = made.trim().split('\n');
  expect(publicKey).toMatch(/^whpk_/);
  expect((await cli(['webhooks', 'ls']))[0]).toContain(endpoint);
  expect(await json('webhooks', 'test', endpoint!)).toMatchObject({ event_type: 'webhook.test' });
  expect(await json('webhooks', 'rm', endpoint!)).toEqual({ endpoint_id: endpoint });
}, 300_000);

test('every command prints JSON with --json, but for a terminal and for scripts of shells', async () => {
  const called: string[] = ['shell', 'completion'];
  const call = (command: string, args: string[] = [], input = '') => {
    called.push(command);
    return jsonOf([...command.split(' '), ...args], input);
  };
  const { sandbox_id: id } = await call('create');
  for (const command of ['info', 'open', 'ports', 'metrics', 'logs', 'pause', 'resume', 'restart']) {
    await call(command, [id]);
  }
  await call('ls');
  await call('timeout', [id, '900']);
  expect(await call('exec', [id, '--', 'echo out; echo err >&2'])).toEqual({
    ...{ exit_code: 0, stdout: 'out\n', stderr: 'err\n', truncated: false },
  });
  const other = await Sandbox.get(id, { apiUrl: url, apiKey: key });
  const { pid } = await other.commands.run('exit 0', { background: true });
  expect(await call('logs', [id, `${pid}`])).toEqual({ exit_code: 0, stdout: '', stderr: '', truncated: false });
  const folder = path.join(config, 'folder');
  fs.mkdirSync(folder);
  fs.writeFileSync(path.join(folder, 'file'), 'content');
  expect(await call('cp', [folder, `${id}:/root/copied`])).toEqual({ copied: ['/root/copied/file'], skipped: 0 });
  expect(await call('sync', [folder, `${id}:/root/synced`])).toEqual({ copied: ['file'], removed: [], skipped: 0 });

  const registry = await registryAddress();
  await pushImage(`http://${registry}`, 'command-line/json');
  await call('template import', ['imported-as-json', `${registry}/command-line/json`]);
  const { template_id } = await call('template from-sandbox', [id, 'made-as-json']);
  await call('template info', [template_id]);
  await call('template ls');
  await call('template rm', [template_id]);
  const { key_id } = await call('keys create', ['as json']);
  for (const command of ['keys disable', 'keys enable', 'keys rm']) await call(command, [key_id]);
  await call('keys ls');
  const { endpoint_id } = await call('webhooks create', ['http://127.0.0.1:8099/', 'budget.*']);
  for (const command of ['webhooks test', 'webhooks rm']) await call(command, [endpoint_id]);
  await call('webhooks ls');
  await call('usage');
  await call('login', ['--url', url, '--profile', 'json', '--key-stdin'], key);
  await call('logout', ['--profile', 'json']);
  expect(await call('kill', [id])).toEqual({ sandbox_id: id, status: expect.stringContaining('terminat') });

  const [functions] = await cli(['completion', 'bash']);
  const commands = [...functions.matchAll(/^ +([\w-]+)\) options="[^"]*"(?: words="([^"]*)")? ;;$/gm)].flatMap(
    ([, name, words]) => words?.split(' ').map((word) => `${name} ${word}`) ?? [name],
  );
  expect([...new Set(called)].sort()).toEqual(commands.sort());
}, 300_000);

test.each([
  [['info', 'sbx-none'], /Try: sandbox-platform ls --all/, 1],
  [['create', '--template', 'none'], /Try: sandbox-platform template ls/, 1],
  [['template'], /Give one of ls, info/, 2],
  [['template', 'rm'], /Give the id of the template/, 2],
  [['template', 'ls', 'word'], /takes no word word/, 2],
  [['template', 'ls', '--memory', '2'], /template ls has no --memory/, 2],
  [['timeout', 'SANDBOX'], /\[not_found\]/, 1],
  [
    ['ls', '--url', 'http://127.0.0.1:1', '--env-file', '/dev/null'],
    /\[not_configured\]\nTry: sandbox-platform login/,
    1,
  ],
])('%j says which command helps', async (args, message, code) => {
  const [stdout, stderr, status] = await cli(args);
  expect([stdout, status]).toEqual(['', code]);
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/HTTP|\/v1\//);
});

test('a paused sandbox is resumed with the command that the error names', async () => {
  await sandbox.pause();
  const [, message] = await cli(['exec', sandbox.id, '--', 'true']);
  const [, advice] = /Try: sandbox-platform (\w+ sbx-\w+)/.exec(message) ?? [];
  expect(advice).toBe(`resume ${sandbox.id}`);
  expect((await cli(advice!.split(' ')))[0]).toBe('running\n');
});

test('completion knows the words of a command', async () => {
  const [functions] = await cli(['completion', 'bash']);
  const words = `${functions}\nCOMP_WORDS=(sandbox-platform template i); COMP_CWORD=2; _sandbox_platform; echo "\${COMPREPLY[@]}"`;
  expect((await run('bash', ['-c', words])).stdout).toBe('info import\n');
  expect((await cli(['completion', 'fish']))[0]).toMatch(/ sync [^\n]* -l json$/m);
});
