import { randomBytes } from 'node:crypto';
import zlib from 'node:zlib';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { fileSignature } from '../../agent/http/access.ts';
import {
  StartRequestSchema,
  StartResponseSchema,
  StatRequestSchema,
  StatResponseSchema,
} from '../../agent/proto/gen/sandboxagent_pb.js';
import { FrameParser, frame } from '../../agent/rpc/frames.ts';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { type Json, TestAgent, token } from './support/agent.ts';
import { PrivateRoot } from './support/private-root.ts';

/** The paths of E2B's clients, in a root of their own because the agent makes a user in it. */
let agent: TestAgent;
let root: PrivateRoot;
beforeAll(async () => {
  const image = await ensureBaseImage({ cacheDir: cacheDir() });
  root = await PrivateRoot.over(image.rootfs, cacheDir());
  agent = await TestAgent.start(root.options(image.config.env));
}, 300_000);
afterAll(async () => {
  await agent?.stop();
  root?.remove();
});

const asUser = (name: string) => ({ authorization: `Basic ${Buffer.from(`${name}:`).toString('base64')}` });

const request = (path: string, { headers = {}, ...rest }: RequestInit & { headers?: Record<string, string> } = {}) =>
  fetch(`${agent.address}${path}`, { headers: { 'x-access-token': token, ...headers }, ...rest });

async function call(procedure: string, body: object, headers = {}): Promise<{ status: number; json: Json }> {
  const reply = await request(`/${procedure}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: reply.status, json: await reply.json() };
}

/** The messages of a streaming call in JSON. The last one is the end of the stream. */
async function stream(procedure: string, body: object, headers = {}): Promise<Json[]> {
  const reply = await request(`/${procedure}`, {
    method: 'POST',
    headers: { 'content-type': 'application/connect+json', ...headers },
    body: new Uint8Array(frame(0, Buffer.from(JSON.stringify(body)))),
  });
  const frames = [...new FrameParser(2 ** 24).push(Buffer.from(await reply.arrayBuffer()))];
  return frames.map(({ payload }) => JSON.parse(payload.toString()));
}

/** Runs a line with bash and collects what it says. */
async function run(line: string, { headers = {}, ...more }: Json = {}) {
  const start = { process: { cmd: '/bin/bash', args: ['-l', '-c', line] }, stdin: false, ...more };
  const messages = await stream('process.Process/Start', start, headers);
  const text = (channel: string) =>
    messages.map(({ event }) => Buffer.from(event?.data?.[channel] ?? '', 'base64').toString()).join('');
  const end = messages.find(({ event }) => event?.end)?.event.end;
  return { stdout: text('stdout'), stderr: text('stderr'), exitCode: end?.exitCode, error: messages.at(-1).error };
}

test('health has no content for these clients, and its own reply for others', async () => {
  const theirs = await request('/health', { headers: { 'e2b-sandbox-id': 'sbx-test' } });
  expect([theirs.status, await theirs.text()]).toEqual([204, '']);
  const ours = await request('/health');
  expect([ours.status, await ours.text()]).toEqual([200, 'OK']);
});

test('a command runs as `user` in its home folder, and as the named user in that one', async () => {
  const line = 'id -un; id -u; pwd; echo $HOME $USER $E2B_SANDBOX $E2B_SANDBOX_ID';
  expect(await run(line)).toMatchObject({
    stdout: 'user\n1000\n/home/user\n/home/user user true sbx-test\n',
    exitCode: 0,
  });
  const asRoot = await run(line, { headers: asUser('root') });
  expect(asRoot.stdout).toBe('root\n0\n/root\n/root root true sbx-test\n');
  expect(await run('true', { headers: asUser('nobody-here') })).toMatchObject({
    error: { code: 'unauthenticated', message: 'unknown user nobody-here' },
  });
});

test('a command without input reads an empty one, and cannot be written to', async () => {
  expect(await run('cat; echo ended', { stdin: false })).toMatchObject({ stdout: 'ended\n' });
  const reading = run('read line; echo "got $line"; read line', { tag: 'reads', stdin: true });
  const process = { tag: 'reads' };
  const input = { stdin: Buffer.from('one\n').toString('base64') };
  for (let sent = 404; sent !== 200; ) sent = (await call('process.Process/SendInput', { process, input })).status;
  expect((await call('process.Process/CloseStdin', { process })).status).toBe(200);
  expect(await reading).toMatchObject({ stdout: 'got one\n', exitCode: 1 });

  const deaf = run('sleep 30', { tag: 'deaf' });
  const selector = { process: { tag: 'deaf' } };
  for (let found = false; !found; ) {
    found = (await call('process.Process/List', {})).json.processes.some(({ tag }: Json) => tag === 'deaf');
  }
  expect(await call('process.Process/SendInput', { ...selector, input })).toMatchObject({
    status: 400,
    json: { code: 'failed_precondition', message: expect.stringContaining('without input') },
  });
  expect((await call('process.Process/CloseStdin', selector)).status).toBe(200);
  expect((await call('process.Process/SendSignal', { ...selector, signal: 'SIGNAL_SIGKILL' })).status).toBe(200);
  expect(await deaf).toMatchObject({ exitCode: -1 });
});

test('a command is killed with its group at the deadline of its call', async () => {
  const late = await run('sleep 98765 & sleep 98765', { headers: { 'connect-timeout-ms': '400' }, tag: 'late' });
  expect(late.error).toMatchObject({ code: 'deadline_exceeded' });
  // The brackets keep the pattern out of its own command line.
  for (let left = true; left; ) left = (await run('pgrep -f "sleep 9876[5]"')).exitCode === 0;
  expect((await call('process.Process/List', {})).json.processes).toEqual([]);
});

test('processes of both faces are the same ones', async () => {
  const theirs = run('sleep 1000', { tag: 'shared' });
  for (let found = false; !found; ) {
    found = (await agent.post('Process/List', {})).json.processes.some(({ tag }: Json) => tag === 'shared');
  }
  const signal = { process: { tag: 'shared' }, signal: 'SIGNAL_SIGTERM' };
  expect((await agent.post('Process/SendSignal', signal)).status).toBe(200);
  expect(await theirs).toMatchObject({ exitCode: -1 });
});

test('binary messages are answered in binary, unary and streamed', async () => {
  const stat = await request('/filesystem.Filesystem/Stat', {
    method: 'POST',
    headers: { 'content-type': 'application/proto' },
    body: new Uint8Array(toBinary(StatRequestSchema, create(StatRequestSchema, { path: '/etc' }))),
  });
  expect(fromBinary(StatResponseSchema, new Uint8Array(await stat.arrayBuffer())).entry!.path).toBe('/etc');
  const message = create(StartRequestSchema, { process: { cmd: '/bin/echo', args: ['hi'] } });
  const start = await request('/process.Process/Start', {
    method: 'POST',
    headers: { 'content-type': 'application/connect+proto' },
    body: new Uint8Array(frame(0, Buffer.from(toBinary(StartRequestSchema, message)))),
  });
  const frames = [...new FrameParser(2 ** 20).push(Buffer.from(await start.arrayBuffer()))];
  const events = frames.slice(0, -1).map(({ payload }) => fromBinary(StartResponseSchema, payload).event!.event.case);
  expect(events).toEqual(['start', 'data', 'end']);
});

test('paths start at the home of the user, who owns what is made', async () => {
  const made = await call('filesystem.Filesystem/MakeDir', { path: 'a/b' });
  expect(made).toMatchObject({ status: 200, json: { entry: { path: '/home/user/a/b', owner: 'user' } } });
  expect((await call('filesystem.Filesystem/Stat', { path: 'a' })).json.entry).toMatchObject({ owner: 'user' });
  const moved = await call('filesystem.Filesystem/Move', { source: 'a/b', destination: 'c/d/e' });
  expect(moved.json.entry.path).toBe('/home/user/c/d/e');
  expect((await call('filesystem.Filesystem/Stat', { path: '~/c/d' })).json.entry).toMatchObject({ owner: 'user' });
  const asRoot = await call('filesystem.Filesystem/MakeDir', { path: 'of-root' }, asUser('root'));
  expect(asRoot.json.entry).toMatchObject({ path: '/root/of-root', owner: 'root' });
  expect((await call('filesystem.Filesystem/Remove', { path: 'was/never/there' })).status).toBe(200);
  expect((await call('filesystem.Filesystem/MakeDir', { path: 'a' })).json.code).toBe('already_exists');
});

test('a link names the end of its chain', async () => {
  await run('mkdir -p links && cd links && echo x > file && ln -s file one && ln -s one two && ln -s nowhere lost');
  const { entries } = (await call('filesystem.Filesystem/ListDir', { path: 'links' })).json;
  const targets = Object.fromEntries(entries.map(({ name, symlinkTarget }: Json) => [name, symlinkTarget]));
  const file = '/home/user/links/file';
  expect(targets).toEqual({ file: undefined, lost: '/home/user/links/lost', one: file, two: file });
});

const upload = (query: string, body: RequestInit['body'], headers: Record<string, string> = {}) =>
  request(`/files?${query}`, { method: 'POST', body, headers });
const raw = { 'content-type': 'application/octet-stream' };
const read = async (path: string) => (await request(`/files?path=${encodeURIComponent(path)}`)).text();

test('a body is written to its path and belongs to its user, also where another file was', async () => {
  const made = await upload('path=docs/note.txt', 'one', raw);
  expect(made.status).toBe(200);
  expect(await made.json()).toEqual([{ path: '/home/user/docs/note.txt', name: 'note.txt', type: 'file' }]);
  expect(await read('/home/user/docs/note.txt')).toBe('one');
  expect((await run('stat -c "%U %G %a" docs docs/note.txt')).stdout).toBe('user user 755\nuser user 644\n');
  await run('chmod 600 docs/note.txt');
  expect((await upload('path=/home/user/docs/note.txt&username=root', 'two', raw)).status).toBe(200);
  expect((await run('stat -c "%U %a" docs/note.txt')).stdout).toBe('root 600\n');
  expect(await (await upload('path=x&username=nobody-here', 'x', raw)).json()).toEqual({
    code: 401,
    message: 'unknown user nobody-here',
  });
});

test('a form writes each file to its name, or one file to the path', async () => {
  const form = new FormData();
  for (let at = 0; at < 150; at++) form.append('file', new Blob([`text ${at}`]), `many/${at}.txt`);
  const written = (await (await upload('', form)).json()) as Json[];
  expect(written.map(({ path }) => path)).toEqual(written.map((_, at) => `/home/user/many/${at}.txt`));
  expect(written).toHaveLength(150);
  expect(await read('many/149.txt')).toBe('text 149');
  const one = new FormData();
  one.append('file', new Blob(['one']), 'ignored');
  expect(await (await upload('path=form.txt', one)).json()).toMatchObject([{ path: '/home/user/form.txt' }]);
  const twice = new FormData();
  for (const text of ['one', 'two']) twice.append('file', new Blob([text]), 'same');
  expect(await (await upload('', twice)).json()).toMatchObject({ code: 400 });
});

test('gzip goes in both directions; other codings are refused', async () => {
  const text = 'compressible '.repeat(10_000);
  const body = new Uint8Array(zlib.gzipSync(text));
  expect((await upload('path=zip.txt', body, { ...raw, 'content-encoding': 'gzip' })).status).toBe(200);
  expect(await read('zip.txt')).toBe(text);
  const asked = await request('/files?path=zip.txt', { headers: { 'accept-encoding': 'gzip' } });
  expect(asked.headers.get('content-encoding')).toBe('gzip');
  expect(await asked.text()).toBe(text);
  const notAsked = await request('/files?path=zip.txt', { headers: { 'accept-encoding': 'gzip, deflate' } });
  expect(notAsked.headers.get('content-encoding')).toBeNull();
  await notAsked.text();
  const part = await request('/files?path=zip.txt', { headers: { 'accept-encoding': 'gzip', range: 'bytes=0-3' } });
  expect([part.status, await part.text()]).toEqual([206, 'comp']);
  for (const [coding, sent] of [
    ['br', 'x'],
    ['gzip', 'not gzip'],
    ['gzip', body.subarray(0, 100)],
  ] as const) {
    const refused = await upload('path=bad.txt', sent, { ...raw, 'content-encoding': coding });
    expect([refused.status, ((await refused.json()) as Json).code]).toEqual([400, 400]);
  }
  // The body is broken before the agent has made the file for it.
  const cut = Array.from({ length: 50 }, (_, index) =>
    upload(`path=bad-${index}.txt`, body.subarray(0, 100), { ...raw, 'content-encoding': 'gzip' }),
  );
  expect((await Promise.all(cut)).map(({ status }) => status)).toEqual(Array(50).fill(400));
  expect((await run('ls -A /home/user | grep -E "bad|upload"')).stdout).toBe('');
});

test('metadata is stored with a file, shown with its entry, and replaced by the next upload', async () => {
  const headers = { ...raw, 'x-metadata-Author': 'Ada', 'x-metadata-kind': 'note' };
  const metadata = { author: 'Ada', kind: 'note' };
  expect(await (await upload('path=meta.txt', 'x', headers)).json()).toMatchObject([{ metadata }]);
  expect((await call('filesystem.Filesystem/Stat', { path: 'meta.txt' })).json.entry.metadata).toEqual(metadata);
  const { entries } = (await call('filesystem.Filesystem/ListDir', { path: '.' })).json;
  expect(entries.find(({ name }: Json) => name === 'meta.txt').metadata).toEqual(metadata);
  const moved = await call('filesystem.Filesystem/Move', { source: 'meta.txt', destination: 'meta2.txt' });
  expect(moved.json.entry.metadata).toEqual(metadata);
  expect(await (await upload('path=meta2.txt', 'y', raw)).json()).toEqual([
    { path: '/home/user/meta2.txt', name: 'meta2.txt', type: 'file' },
  ]);
  const unusable: Record<string, string>[] = [
    { 'x-metadata-a': 'ü' },
    { [`x-metadata-${'k'.repeat(247)}`]: 'v' },
    { 'x-metadata-a': 'v'.repeat(4096) },
  ];
  for (const bad of unusable) {
    expect((await upload('path=never.txt', 'x', { ...raw, ...bad })).status).toBe(400);
  }
  expect((await request('/files?path=never.txt')).status).toBe(404);
});

test('a signed URL works for its path, operation, user and time, and for nothing else', async () => {
  await upload('path=signed.txt', 'signed', raw);
  const sign = (path: string, operation: 'read' | 'write', username = '', expiration: string | null = null) => {
    const query = new URLSearchParams({
      path,
      signature: fileSignature({ path, operation, username, expiration }, token),
    });
    if (username) query.set('username', username);
    if (expiration) query.set('signature_expiration', expiration);
    return `${agent.address}/files?${query}`;
  };
  expect(await (await fetch(sign('signed.txt', 'read'))).text()).toBe('signed');
  expect((await fetch(sign('signed.txt', 'read', 'root', '9999999999'))).status).toBe(404);
  const soon = String(Math.floor(Date.now() / 1000) + 60);
  expect((await fetch(sign('signed.txt', 'read', 'user', soon))).status).toBe(200);
  const form = new FormData();
  form.append('file', new Blob(['by form']), 'signed.txt');
  expect((await fetch(sign('signed.txt', 'write'), { method: 'POST', body: form })).status).toBe(200);
  expect(await read('signed.txt')).toBe('by form');
  for (const url of [
    sign('signed.txt', 'write'),
    sign('signed.txt', 'read').replace('signed.txt', 'other.txt'),
    sign('signed.txt', 'read', 'user', '1000'),
    `${sign('signed.txt', 'read')}&username=root`,
    `${agent.address}/files?path=signed.txt`,
  ]) {
    const refused = await fetch(url);
    expect([refused.status, ((await refused.json()) as Json).code]).toEqual([401, 401]);
  }
});

test('a missing file is 404, a folder 400, a method that does not exist 404, each with a code', async () => {
  for (const [path, status] of [
    ['/files?path=missing.txt', 404],
    ['/files?path=/etc', 400],
    ['/files', 400],
  ] as const) {
    const reply = await request(path);
    expect([reply.status, await reply.json()]).toEqual([status, { code: status, message: expect.any(String) }]);
  }
  expect((await request('/files?path=x', { method: 'DELETE' })).status).toBe(404);
  expect((await call('process.Process/Nothing', {})).status).toBe(404);
});

test('a full disk is 507, also while the client still sends, and leaves nothing behind', async () => {
  await run('mkdir /small && mount -t tmpfs -o size=1m tmpfs /small', { headers: asUser('root') });
  const content = randomBytes(16 * 1024 * 1024);
  const form = new FormData();
  form.append('file', new Blob([content]), '/small/file');
  for (const [body, headers] of [
    [content, raw],
    [zlib.gzipSync(content), { ...raw, 'content-encoding': 'gzip' }],
    [form, {}],
  ] as const) {
    const full = await upload(body === form ? '' : 'path=/small/file', body, headers);
    expect([full.status, await full.json()]).toEqual([507, { code: 507, message: expect.any(String) }]);
  }
  expect((await run('ls -A /small')).stdout).toBe('');
});

test('files are joined to one, and are gone afterwards', async () => {
  for (const part of ['1', '2', '3']) await upload(`path=parts/${part}`, part.repeat(3), raw);
  const compose = (body: object) => call('files/compose', body);
  const joined = await compose({ source_paths: ['parts/1', 'parts/2', '~/parts/3'], destination: 'whole/file' });
  expect(joined).toMatchObject({ status: 200, json: { path: '/home/user/whole/file', type: 'file' } });
  expect(await read('whole/file')).toBe('111222333');
  expect((await run('ls parts; stat -c %U whole/file')).stdout).toBe('user\n');
  await upload('path=parts/1', 'kept', raw);
  expect(await compose({ source_paths: ['parts/1', 'parts/none'], destination: 'whole/file' })).toMatchObject({
    status: 404,
    json: { code: 404 },
  });
  expect([await read('parts/1'), await read('whole/file')]).toEqual(['kept', '111222333']);
  for (const bad of [
    {},
    { source_paths: [], destination: 'x' },
    { source_paths: ['a'] },
    { source_paths: [1], destination: 'x' },
  ]) {
    expect((await compose(bad)).status).toBe(400);
  }
  const tooLong = await compose({ source_paths: ['a'], destination: 'x'.repeat(5 * 1024 * 1024) });
  expect(tooLong).toEqual({ status: 400, json: { code: 400, message: 'body too long' } });
});

test('a watcher reports entries when it is asked to', async () => {
  await run('mkdir -p watched/deep');
  const watch = { path: 'watched', recursive: true };
  const { watcherId } = (await call('filesystem.Filesystem/CreateWatcher', { ...watch, includeEntry: true })).json;
  await run('echo x > watched/deep/new; rm watched/deep/new; echo y > watched/kept');
  const { events } = (await call('filesystem.Filesystem/GetWatcherEvents', { watcherId })).json;
  const created = events.find(({ name, type }: Json) => name === 'kept' && type === 'EVENT_TYPE_CREATE');
  expect(created.entry).toMatchObject({ path: '/home/user/watched/kept', owner: 'user' });
  const removed = events.find(({ type }: Json) => type === 'EVENT_TYPE_REMOVE');
  expect(removed).toEqual({ name: 'deep/new', type: 'EVENT_TYPE_REMOVE' });
  expect((await call('filesystem.Filesystem/RemoveWatcher', { watcherId })).status).toBe(200);
  const noToken = await fetch(`${agent.address}/filesystem.Filesystem/GetWatcherEvents`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ watcherId }),
  });
  expect(noToken.status).toBe(401);
});

test('a streamed watch sends a keepalive at the asked interval', async () => {
  await run('mkdir -p quiet');
  const events = await stream(
    'filesystem.Filesystem/WatchDir',
    { path: 'quiet' },
    {
      'keepalive-ping-interval': '0.1',
      'connect-timeout-ms': '500',
    },
  );
  expect(events.filter((event) => event.keepalive).length).toBeGreaterThan(1);
  expect(events.at(-1).error.code).toBe('deadline_exceeded');
});

test('variables and use of the sandbox are shown with the token only', async () => {
  expect(await (await request('/envs')).json()).toEqual({ E2B_SANDBOX: 'true', E2B_SANDBOX_ID: 'sbx-test' });
  const usage = (await (await request('/metrics')).json()) as Json;
  for (const name of ['ts', 'cpu_count', 'mem_total', 'mem_used', 'disk_total', 'disk_used']) {
    expect([name, usage[name] > 0]).toEqual([name, true]);
  }
  for (const path of ['/envs', '/metrics']) expect((await fetch(agent.address + path)).status).toBe(401);
});

test('an image without the user gets it, with a free number and its other accounts unchanged', async () => {
  // The last line has no end.
  const remove = 'userdel -r user; rm /etc/sudoers.d/user; useradd other -u 1000; truncate -s -1 /etc/passwd';
  await run(remove, { headers: asUser('root') });
  const made = await run('id -un; id -u; pwd; sudo id -un; id -u other; tail -n 2 /etc/passwd | cut -d: -f1');
  expect(made.stdout).toBe('user\n1001\n/home/user\nroot\n1000\nother\nuser\n');
});

test('an image without accounts serves root', async () => {
  await agent.stop();
  root.remove();
  const image = await ensureBaseImage({ cacheDir: cacheDir() });
  root = await PrivateRoot.over(image.rootfs, cacheDir());
  agent = await TestAgent.start(root.options(image.config.env));
  await run('rm /etc/passwd; mkdir /etc/passwd', { headers: asUser('root') });
  expect((await run('id -u; pwd')).stdout).toBe('0\n/root\n');
  expect(agent.log).toContain('so its requests use root');
});
