import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import pty from '@lydell/node-pty';
import { frame, HostileAgent, json } from './hostile-agent.ts';

// Root in a sandbox may replace the agent, which then answers any text to the command line of a user's own machine.

const script = path.resolve(import.meta.dirname, '../../clients/typescript/src/cli/main.ts');
/** Clears the screen, and reverses the direction of the text behind it. */
const evil = '\u001b[2J\u009b\u202e\u200b';
const raw = /[\p{Cf}\p{Zl}]|(?!\n)\p{Cc}/u;
let agent: HostileAgent;
let dir: string;
/** The folder that a copy may write into. Everything beside it must stay as it is. */
let target: string;

beforeEach(async () => {
  agent = new HostileAgent();
  await agent.start();
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'client-hostile-'));
  target = path.join(dir, 'a/target');
  fs.mkdirSync(target, { recursive: true });
  agent.answers.download = (_, reply) => reply.end('hostile');
});
afterEach(() => {
  agent.stop();
  fs.rmSync(dir, { recursive: true, force: true });
});

const env = () => ({
  ...{ PATH: process.env.PATH, NODE_OPTIONS: '', PLATFORM_API_KEY: 'key' },
  ...{ PLATFORM_URL: agent.connection.apiUrl, PLATFORM_GATEWAY: agent.connection.gatewayUrl },
});

/** Runs the command line. Its output and exit status. */
function cli(...args: string[]): Promise<{ stdout: string; stderr: string; status: number }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], { env: env(), cwd: target }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, status: error ? Number(error.code) : 0 }),
    );
  });
}

const entry = (name: string, folder: string, more: object = {}) => ({
  ...{ name, path: `${folder}/${name}`, type: 'FILE_TYPE_FILE', size: '7', mode: 420, permissions: '-rw-r--r--' },
  ...{ owner: 'root', group: 'root', modifiedTime: '2026-01-01T00:00:00Z', ...more },
});
const folder = (name: string, above: string) => entry(name, above, { type: 'FILE_TYPE_DIRECTORY' });

/** All files below the test's folder. */
const filesThere = () =>
  (fs.readdirSync(dir, { recursive: true }) as string[])
    .filter((name) => !fs.lstatSync(path.join(dir, name)).isDirectory())
    .sort();

test.each(['../../escaped', '/escaped', '', '.ssh'])(
  'a copied file and a copied folder keep the name that the user gave, not %j',
  async (name) => {
    agent.answers['Filesystem/Stat'] = json({ entry: { ...entry(name, '/root'), path: '/root/report' } });
    expect(await cli('cp', `${agent.sandboxId}:/root/report`, '.')).toMatchObject({ stdout: 'report\n', status: 0 });
    expect(filesThere()).toEqual(['a/target/report']);

    agent.answers['Filesystem/Stat'] = json({ entry: { ...folder(name, '/root'), path: '/root/work' } });
    agent.answers['Filesystem/ListDir'] = json({ entries: [entry('x', '/root/work')] });
    expect(await cli('cp', `${agent.sandboxId}:/root/work/`, target)).toMatchObject({ status: 0 });
    expect(filesThere()).toEqual(['a/target/report', 'a/target/work/x']);
  },
);

test.each(['', '~/', '..'])('a copy of the path %j, which has no name, has the name of the sandbox', async (from) => {
  agent.answers['Filesystem/Stat'] = json({ entry: { ...folder('../../escaped', '/'), path: '/root' } });
  agent.answers['Filesystem/ListDir'] = json({ entries: [entry('x', '/root')] });
  expect(await cli('cp', `${agent.sandboxId}:${from}`, '.')).toMatchObject({ status: 0 });
  expect(filesThere()).toEqual(['a/target/sbx-hostile/x']);
});

test.each([
  ...[
    '/root/work/../../../escaped',
    '/root/work/..',
    '/root/work',
    '/root/work//x',
    '/root/work/./x',
    '/root/work/a\0b',
  ],
  ...['/etc/passwd', '/root/worker/x', 'x', ''],
])('a listed path %j that is not inside the folder ends the copy', async (listed) => {
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  const type = listed.endsWith('..') ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE';
  agent.answers['Filesystem/ListDir'] = json({ entries: [{ ...entry('x', '/root/work', { type }), path: listed }] });
  const { stderr, status } = await cli('cp', `${agent.sandboxId}:/root/work`, 'copy');
  expect([status, stderr]).toEqual([1, expect.stringContaining('[bad_reply]')]);
  expect(filesThere()).toEqual([]);
});

test('a link that is in the target is not followed, nor is one that the sandbox names', async () => {
  fs.mkdirSync(path.join(target, 'work'));
  fs.mkdirSync(path.join(dir, 'beside'));
  fs.symlinkSync('../../../beside', path.join(target, 'work/out'));
  fs.symlinkSync('../../../escaped', path.join(target, 'work/file'));
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  const links = ['a/target/work/file', 'a/target/work/out'];
  for (const listed of [entry('file', '/root/work'), folder('out', '/root/work'), entry('x', '/root/work/out')]) {
    agent.answers['Filesystem/ListDir'] = json({ entries: [listed] });
    const { stderr, status } = await cli('cp', `${agent.sandboxId}:/root/work`, '.');
    expect([status, stderr]).toEqual([1, expect.stringContaining('is a link')]);
    expect(filesThere()).toEqual(links);
  }
  const link = entry('up', '/root/work', { symlinkTarget: '/etc' });
  const below = entry('x', '/root/work/up');
  agent.answers['Filesystem/ListDir'] = json({ entries: [link, below] });
  expect(await cli('cp', `${agent.sandboxId}:/root/work`, '.')).toMatchObject({ status: 0 });
  expect(filesThere()).toEqual([...links, 'a/target/work/up/x']);
});

test('names, processes and errors are printed without control characters, as text and as JSON', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  agent.answers['Filesystem/ListDir'] = json({ entries: [entry(`${evil}\nsecond`, '/root/work')] });
  const config = { cmd: `sleep${evil}`, args: ['a\nb'], envs: {} };
  agent.answers['Process/List'] = json({ processes: [{ pid: 7, tag: `tag${evil}`, config }] });
  const copied = await cli('cp', `${agent.sandboxId}:/root/work`, '.');
  expect(copied.stdout).toBe('work/\\u001b[2J\\u009b\\u202e\\u200b\\u000asecond\n');
  const listed = await cli('logs', agent.sandboxId);
  expect(listed.stdout).toMatch(/\n7 +tag\\u001b.* sleep\\u001b.* a\\u000ab\n$/);

  const asJson = [
    await cli('cp', `${agent.sandboxId}:/root/work`, '.', '--json'),
    await cli('logs', agent.sandboxId, '--json'),
  ].map(({ stdout }) => stdout);
  expect(asJson.join()).not.toMatch(raw);
  expect(JSON.parse(asJson[0]!)).toEqual({ copied: [`work/${evil}\nsecond`] });
  expect(JSON.parse(asJson[1]!)).toMatchObject([{ tag: `tag${evil}` }]);

  const failures = [
    [404, JSON.stringify({ code: `code${evil}`, message: `none${evil}` })],
    [500, `proxy${evil}`],
    [200, `{no json${evil}`],
  ] as const;
  for (const [status, text] of failures) {
    agent.answers['Filesystem/Stat'] = (_, reply) => reply.writeHead(status).end(text);
    for (const more of [[], ['--json']]) {
      const failed = await cli('cp', `${agent.sandboxId}:/root/work`, '.', ...more);
      expect([failed.status, failed.stderr]).toEqual([1, expect.not.stringMatching(raw)]);
    }
  }
  agent.answers['Process/Connect'] = (_, reply) => reply.end(frame({ error: { code: 'x', message: `end${evil}` } }, 2));
  const ended = await cli('logs', agent.sandboxId, '7');
  expect([ended.status, ended.stderr]).toEqual([1, expect.stringMatching(/^sandbox-platform: end\\u001b.* \[x\]\n$/)]);
});

test('output of a command is unchanged in a pipe; on a terminal it may only set colours', async () => {
  const text = `\u001b[31mred\u001b[0m\ttab ${evil}\u001b]0;title\u0007 end`;
  const stdout = Buffer.from(text).toString('base64');
  agent.answers['Process/Connect'] = (_, reply) => {
    reply.write(frame({ event: { start: { pid: 7 } } }));
    reply.write(frame({ event: { data: { stdout } } }));
    reply.write(frame({ event: { end: { exitCode: 0 } } }));
    reply.end(frame({}, 2));
  };
  expect((await cli('logs', agent.sandboxId, '7')).stdout).toBe(text);

  const terminal = pty.spawn(process.execPath, [script, 'logs', agent.sandboxId, '7'], { env: env(), cols: 200 });
  let shown = '';
  terminal.onData((data) => {
    shown += data;
  });
  await new Promise((resolve) => terminal.onExit(resolve));
  expect(shown).toContain('\u001b[31mred\u001b[0m\ttab \\u001b[2J\\u009b');
  expect(shown).toContain('\\u001b]0;title\\u0007 end');
});
