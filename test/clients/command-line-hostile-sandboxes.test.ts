import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import pty from '@lydell/node-pty';
import { tarOf } from '../support/tar.ts';
import { until } from '../support/until.ts';
import { type Answer, frame, HostileAgent, json } from './hostile-agent.ts';
import { hostileTars, pathsBelow } from './hostile-tars.ts';

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

/** What the command line shows on a terminal. */
async function onTerminal(...args: string[]): Promise<string> {
  const terminal = pty.spawn(process.execPath, [script, ...args], { env: env(), cols: 200, cwd: target });
  let shown = '';
  terminal.onData((data) => {
    shown += data;
  });
  await new Promise((resolve) => terminal.onExit(resolve));
  return shown;
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

const answerTar =
  (...tars: Uint8Array[]): Answer =>
  (_, reply) =>
    reply.end(Buffer.concat(tars));

test.each(['../../escaped', '/escaped', '', '.ssh'])(
  'a copied file and a copied folder keep the name that the user gave, not %j',
  async (name) => {
    agent.answers['Filesystem/Stat'] = json({ entry: { ...entry(name, '/root'), path: '/root/report' } });
    expect(await cli('cp', `${agent.sandboxId}:/root/report`, '.')).toMatchObject({ stdout: 'report\n', status: 0 });
    expect(filesThere()).toEqual(['a/target/report']);

    agent.answers['Filesystem/Stat'] = json({ entry: { ...folder(name, '/root'), path: '/root/work' } });
    agent.answers.archive = answerTar(await tarOf({ name: 'x', content: 'x' }));
    expect(await cli('cp', `${agent.sandboxId}:/root/work/`, target)).toMatchObject({ status: 0 });
    expect(filesThere()).toEqual(['a/target/report', 'a/target/work/x']);
  },
);

test.each(['', '~/', '..'])('a copy of the path %j, which has no name, has the name of the sandbox', async (from) => {
  agent.answers['Filesystem/Stat'] = json({ entry: { ...folder('../../escaped', '/'), path: '/root' } });
  agent.answers.archive = answerTar(await tarOf({ name: 'x', content: 'x' }));
  expect(await cli('cp', `${agent.sandboxId}:${from}`, '.')).toMatchObject({ status: 0 });
  expect(filesThere()).toEqual(['a/target/sbx-hostile/x']);
});

test.each(hostileTars)('a copy writes nothing outside of its target when the sandbox sends $what', async (hostile) => {
  fs.mkdirSync(path.join(target, 'beside'));
  fs.writeFileSync(path.join(target, 'beside/precious'), 'precious');
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  agent.answers.archive = answerTar(await hostile.tar());
  const { stderr, stdout, status } = await cli('cp', `${agent.sandboxId}:/root/work`, '.');
  if (hostile.code === null) expect([status, stderr]).toEqual([1, expect.stringMatching(/EISDIR|EEXIST/)]);
  else if (hostile.code) expect([status, stderr]).toEqual([1, expect.stringContaining(`[${hostile.code}]`)]);
  else expect([status, stderr]).toEqual([0, expect.anything()]);
  expect(stderr + stdout).not.toMatch(raw);
  expect(fs.readFileSync(path.join(target, 'beside/precious'), 'utf8')).toBe('precious');
  expect(fs.readdirSync(target).sort()).toEqual(['beside', 'work']);
  expect(fs.readdirSync(dir)).toEqual(['a']);
  const left = pathsBelow(path.join(target, 'work'));
  expect(left).toEqual(hostile.left);
  if (left.includes('good')) expect(fs.readFileSync(path.join(target, 'work/good'), 'utf8')).toBe('good');
});

test('links of the user in the target are not followed: one to a folder ends the copy, one to a file is replaced', async () => {
  fs.mkdirSync(path.join(target, 'work'));
  fs.mkdirSync(path.join(dir, 'beside'));
  fs.symlinkSync('../../../beside', path.join(target, 'work/out'));
  fs.symlinkSync('../../../escaped', path.join(target, 'work/file'));
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  for (const sent of [
    { name: 'out', type: 'directory' as const },
    { name: 'out/x', content: 'x' },
  ]) {
    agent.answers.archive = answerTar(await tarOf(sent));
    const { stderr, status } = await cli('cp', `${agent.sandboxId}:/root/work`, '.');
    expect([status, stderr]).toEqual([1, expect.stringContaining('is a link')]);
    expect(filesThere()).toEqual(['a/target/work/file', 'a/target/work/out']);
  }
  agent.answers.archive = answerTar(await tarOf({ name: 'file', content: 'x', mode: 0o6777 }));
  expect(await cli('cp', `${agent.sandboxId}:/root/work`, '.')).toMatchObject({ status: 0 });
  const { mode } = fs.lstatSync(path.join(target, 'work/file'));
  // No link, no set-id bits, and the umask holds.
  expect(mode).toBe(0o100777 & ~process.umask());
  expect(filesThere()).toEqual(['a/target/work/file', 'a/target/work/out']);
});

test('an endless file ends with Ctrl-C, and a copy that breaks off ends with an error; neither leaves a part', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  const tar = await tarOf({ name: 'whole', content: 'x' }, { name: 'endless', content: Buffer.alloc(1_000_000) });
  const staged = () => filesThere().some((name) => name.includes('.sandbox-platform-'));
  agent.answers.archive = (_, reply) => void reply.write(tar.subarray(0, 500_000));
  const running = execFile(process.execPath, [script, 'cp', `${agent.sandboxId}:/root/work`, '.'], {
    env: env(),
    cwd: target,
  });
  await until(staged);
  running.kill('SIGINT');
  const status = await new Promise((resolve) => running.once('exit', resolve));
  expect([status, filesThere()]).toEqual([130, ['a/target/work/whole']]);

  agent.answers.archive = (_, reply) => {
    reply.write(tar.subarray(0, 500_000));
    void until(staged).then(() => reply.destroy());
  };
  const broken = await cli('cp', `${agent.sandboxId}:/root/work`, '.');
  expect([broken.status, broken.stderr]).toEqual([1, expect.stringContaining('[connection_failed]')]);
  agent.answers['Filesystem/Stat'] = json({ entry: entry('report', '/root') });
  agent.answers.download = (_, reply) => {
    reply.writeHead(200, { 'content-length': 100 }).write('part');
    void until(staged).then(() => reply.destroy());
  };
  const file = await cli('cp', `${agent.sandboxId}:/root/report`, '.');
  expect([file.status, file.stderr]).toEqual([1, expect.stringContaining('[connection_failed]')]);
  expect(filesThere()).toEqual(['a/target/work/whole']);
});

test('a file goes unchanged to a pipe and printable to a terminal; a folder goes only to a pipe', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: entry('report', '/root') });
  agent.answers.download = (_, reply) => reply.end(evil);
  const from = `${agent.sandboxId}:/root/report`;
  expect((await cli('cp', from, '-')).stdout).toBe(evil);
  expect(await onTerminal('cp', from, '-')).toContain('\\u001b[2J\\u009b');
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  agent.answers.archive = answerTar(Buffer.from('a tar'));
  expect((await cli('cp', from, '-')).stdout).toBe('a tar');
  expect(await onTerminal('cp', from, '-')).toContain('not for a terminal');
});

test('names, processes and errors are printed without control characters, as text and as JSON', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: folder('work', '/root') });
  agent.answers.archive = answerTar(await tarOf({ name: `${evil}\nsecond`, content: 'x' }));
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
  expect(JSON.parse(asJson[0]!)).toEqual({ copied: [`work/${evil}\nsecond`], skipped: 0 });
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

  const shown = await onTerminal('logs', agent.sandboxId, '7');
  expect(shown).toContain('\u001b[31mred\u001b[0m\ttab \\u001b[2J\\u009b');
  expect(shown).toContain('\\u001b]0;title\\u0007 end');
});
