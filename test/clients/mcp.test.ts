import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { releaseVersion } from '../../platform/config/release.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { installPackage } from './packed-client.ts';

const run = promisify(execFile);

/** The MCP server, installed from its packed archive and used by the SDK's own client against the whole platform. */
let platform: RunningPlatform;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-mcp-'));
let program: string;

beforeAll(async () => {
  [platform] = await Promise.all([RunningPlatform.shared(), install()]);
}, 300_000);

afterAll(async () => {
  await platform?.leave();
  fs.rmSync(dir, { recursive: true });
}, 300_000);

async function install(): Promise<void> {
  fs.writeFileSync(path.join(dir, 'package.json'), '{"name": "empty", "private": true}');
  await installPackage(dir, `sandbox-platform-mcp-${releaseVersion}.tgz`);
  program = path.join(dir, 'node_modules/@sandbox-platform/mcp/dist/main.js');
}

interface Answer {
  isError?: boolean;
  content: { type: string; text?: string; data?: string; mimeType?: string }[];
}

/** Calls a tool and reads the JSON of its first text. */
async function call(client: Client, name: string, args: Record<string, unknown>) {
  const answer = (await client.callTool({ name, arguments: args }, undefined, {
    timeout: 120_000,
  })) as unknown as Answer;
  const text = answer.content.find((each) => each.type === 'text')?.text ?? '';
  return { answer, text, value: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : null };
}

test('wrong options are reported with the usage', async () => {
  const { code, stderr } = await run(process.execPath, [program, '--none']).catch((error) => error);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/--none[\s\S]*sandbox-platform-mcp --http/)]);
});

test('over stdio an agent makes a sandbox, runs commands and code, handles files, opens a port and ends it', async () => {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [program],
      env: { PLATFORM_URL: platform.env.PLATFORM_URL, PLATFORM_API_KEY: platform.env.PLATFORM_API_KEY! },
    }),
  );
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name).sort()).toEqual([
    ...['create_sandbox', 'kill_process', 'list_files', 'list_sandboxes', 'open_port', 'pause_sandbox', 'read_file'],
    ...['read_output', 'resume_sandbox', 'run_code', 'run_command', 'terminate_sandbox', 'upload_file', 'wait_process'],
    'write_file',
  ]);
  for (const { description } of tools) expect(description).toMatch(/\w+/);

  const made = await call(client, 'create_sandbox', { template: 'code-interpreter', env: { A: 'b' } });
  const { sandbox_id } = made.value;
  expect(sandbox_id).toMatch(/^sbx-/);
  const listed = await call(client, 'list_sandboxes', {});
  expect(listed.value).toContainEqual(expect.objectContaining({ sandbox_id, status: 'running' }));

  const ran = await call(client, 'run_command', { sandbox_id, command: 'echo $A; cat; exit 3', stdin: 'typed' });
  expect(ran.value).toEqual({ exit_code: 3, stdout: 'b\ntyped', stderr: '' });
  const slow = await call(client, 'run_command', { sandbox_id, command: 'sleep 600', timeout_seconds: 1 });
  expect([slow.answer.isError, slow.value.code]).toEqual([true, 'timed_out']);

  await call(client, 'run_code', { sandbox_id, code: 'x = 41' });
  expect((await call(client, 'run_code', { sandbox_id, code: 'print("out"); x + 1' })).value).toEqual({
    ...{ stdout: 'out\n', results: ['42'] },
  });
  const plot = 'import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.show()';
  const exact = { sandbox_id, language: 'javascript', code: 'display([2n ** 53n + 1n])' };
  expect((await call(client, 'run_code', exact)).text).toContain('"results":[[9007199254740993]');
  const { answer } = await call(client, 'run_code', { sandbox_id, code: plot });
  const picture = answer.content.find(({ type }) => type === 'image')!;
  expect(picture.mimeType).toBe('image/png');
  expect(Buffer.from(picture.data!, 'base64').subarray(1, 4).toString()).toBe('PNG');
  const raised = await call(client, 'run_code', { sandbox_id, code: '1/0' });
  expect([raised.answer.isError, raised.value.error.name]).toEqual([true, 'ZeroDivisionError']);

  await call(client, 'write_file', { sandbox_id, path: '/root/made/a.txt', content: 'text' });
  expect((await call(client, 'read_file', { sandbox_id, path: '/root/made/a.txt' })).text).toBe('text');
  expect((await call(client, 'list_files', { sandbox_id, path: '/root/made' })).value.entries).toEqual([
    { path: '/root/made/a.txt', type: 'file', size: 4 },
  ]);
  const missing = await call(client, 'read_file', { sandbox_id, path: '/none' });
  expect([missing.answer.isError, missing.value.code]).toEqual([true, 'not_found']);

  const opened = await call(client, 'open_port', { sandbox_id, port: 8000 });
  expect(opened.value.url).toContain(`//8000-${sandbox_id}.`);
  expect((await call(client, 'open_port', { sandbox_id, port: 8000 })).value.url).toBe(opened.value.url);
  expect((await call(client, 'terminate_sandbox', { sandbox_id })).value.terminated).toBe(true);
  await client.close();
}, 300_000);

/** A client of the server over stdio. */
async function connectToServer(): Promise<Client> {
  const { PLATFORM_URL, PLATFORM_API_KEY } = platform.env;
  const env = { PLATFORM_URL: PLATFORM_URL!, PLATFORM_API_KEY: PLATFORM_API_KEY! };
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [program], env }));
  return client;
}

test('a background command is read, waited for and killed, and a sandbox paused and resumed', async () => {
  const client = await connectToServer();
  const { sandbox_id } = (await call(client, 'create_sandbox', {})).value;
  const start = async (command: string) =>
    (await call(client, 'run_command', { sandbox_id, command, background: true })).value;
  const begin = async (command: string) => (await start(command)).pid;
  const { pid, ...first } = await start(
    'echo first; sleep 1; for i in $(seq 9); do echo $i; sleep 0.3; done; exec sleep 600',
  );
  expect(first).toEqual({ running: true, stdout: 'first\n', stderr: '' });
  // No line is lost between two reads.
  let lines = '';
  for (let reads = 0; reads < 6; reads++) {
    const { running, stdout } = (await call(client, 'read_output', { sandbox_id, pid, wait_seconds: 0.7 })).value;
    expect(running).toBe(true);
    lines += stdout;
  }
  expect(lines).toBe('1\n2\n3\n4\n5\n6\n7\n8\n9\n');
  const failed = await start('echo no such thing >&2; exit 4');
  expect(failed).toEqual({
    pid: expect.any(Number),
    running: false,
    exit_code: 4,
    stdout: '',
    stderr: 'no such thing\n',
  });
  expect((await call(client, 'wait_process', { sandbox_id, pid, timeout_seconds: 1 })).value.running).toBe(true);
  expect((await call(client, 'kill_process', { sandbox_id, pid })).value).toEqual({ pid, killed: true });
  expect((await call(client, 'wait_process', { sandbox_id, pid })).value).toMatchObject({
    running: false,
    exit_code: 137,
  });
  expect((await call(client, 'kill_process', { sandbox_id, pid })).value).toEqual({ pid, killed: false });
  const ended = await begin('sleep 1; echo done; exit 5');
  const result = { pid: ended, running: false, exit_code: 5, stdout: 'done\n', stderr: '' };
  expect((await call(client, 'wait_process', { sandbox_id, pid: ended })).value).toEqual(result);

  await begin('exec python3 -m http.server 8000');
  await until(async () => (await call(client, 'open_port', { sandbox_id, port: 8000 })).value.is_listening);
  for (let twice = 0; twice < 2; twice++) {
    expect((await call(client, 'pause_sandbox', { sandbox_id })).value).toEqual({ sandbox_id, status: 'paused' });
  }
  const resumed = (await call(client, 'resume_sandbox', { sandbox_id, timeout_seconds: 120 })).value;
  expect(resumed).toEqual({ sandbox_id, status: 'running', timeout_seconds: 120 });
  await call(client, 'terminate_sandbox', { sandbox_id });
  await client.close();
}, 300_000);

test('files are uploaded as base64 and read as resources', async () => {
  const client = await connectToServer();
  const { sandbox_id } = (await call(client, 'create_sandbox', {})).value;
  const bytes = Buffer.from([0, 1, 254, 255]);
  const upload = { sandbox_id, path: '/root/ä b/data.bin', content_base64: bytes.toString('base64') };
  expect((await call(client, 'upload_file', upload)).value).toEqual({ path: upload.path, bytes: 4 });
  const { resourceTemplates } = await client.listResourceTemplates();
  expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(['sandbox://{sandbox_id}/{+path}']);
  const read = async (path: string) => (await client.readResource({ uri: `sandbox://${sandbox_id}/${path}` })).contents;
  expect(await read(encodeURI('root/ä b/data.bin'))).toEqual([
    { uri: expect.stringContaining(sandbox_id), blob: bytes.toString('base64') },
  ]);
  expect(await read('etc/hostname')).toEqual([{ uri: expect.any(String), text: `${sandbox_id}\n` }]);
  await expect(read('none')).rejects.toThrow('not found');
  await call(client, 'terminate_sandbox', { sandbox_id });
  await client.close();
}, 300_000);

test('mistakes that models make succeed, or are answered with what to do next', async () => {
  const client = await connectToServer();
  const { sandbox_id } = (await call(client, 'create_sandbox', { timeout_seconds: '300' })).value;
  const tried = async (name: string, args: Record<string, unknown>) => {
    const { answer, text } = await call(client, name, args);
    return [answer.isError ?? false, text];
  };
  const says = (pattern: RegExp) => [true, expect.stringMatching(pattern)];
  const done = (pattern: RegExp) => [false, expect.stringMatching(pattern)];
  const mistakes: [name: string, args: Record<string, unknown>, unknown][] = [
    ['run_command', { sandbox_id, command: ['printf', '%s', 'a b'] }, done(/"stdout":"a b"/)],
    ['run_command', { sandbox_id, command: 'echo 1', timeout_seconds: '5', shell: true }, done(/"stdout":"1\\n"/)],
    ['run_command', { sandbox_id, command: 'sleep 300 & echo started' }, done(/"stdout":"started\\n"/)],
    ['run_command', { command: 'echo 1' }, says(/sandbox_id/)],
    ['run_command', { sandbox_id: 'default', command: 'echo 1' }, says(/sandbox_id/)],
    ['run_command', { sandbox_id: 'sbx-none', command: 'echo 1' }, says(/not_found/)],
    ['run_code', { sandbox_id, code: '1 + 1', language: 'js' }, done(/"results":\["2"\]/)],
    ['run_code', { sandbox_id, code: 'echo hi', language: 'Shell' }, done(/hi/)],
    ['run_code', { sandbox_id, code: '1 + 1', language: 'cobol' }, says(/language/)],
    ['run_code', { sandbox_id, code: '1 + 1' }, says(/template code-interpreter/)],
    ['read_file', { sandbox_id, path: '/etc' }, says(/list_files lists a folder/)],
    ['read_file', { sandbox_id, path: '/etc/none' }, says(/no such file or directory/)],
    ['list_files', { sandbox_id, path: '/etc/hostname' }, says(/not a directory/)],
    ['read_output', { sandbox_id, pid: 999_999 }, says(/not found/)],
    ['read_output', { sandbox_id, pid: 'none' }, says(/pid/)],
    ['upload_file', { sandbox_id, path: '/tmp/x', content_base64: 'no base64!' }, says(/content_base64/)],
    ['create_sandbox', { template: 'ubuntu:22.04' }, says(/template base or code-interpreter/)],
    ['create_sandbox', { timeout_seconds: 5 }, says(/timeout_seconds/)],
    ['open_port', { sandbox_id, port: '8001' }, done(/"is_listening":false/)],
  ];
  for (const [name, args, expected] of mistakes)
    expect([name, args, await tried(name, args)]).toEqual([name, args, expected]);
  await call(client, 'terminate_sandbox', { sandbox_id });
  expect(await tried('run_command', { sandbox_id, command: 'echo 1' })).toEqual(says(/create_sandbox/));
  await client.close();
}, 300_000);

test('over HTTP each caller needs a key, and pages of other origins are refused', async () => {
  const env = { ...process.env, NODE_OPTIONS: '', PLATFORM_URL: platform.env.PLATFORM_URL, PLATFORM_API_KEY: '' };
  const args = [program, '--http', '--port', '0', '--allow-origin', 'https://app.example'];
  const server = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  try {
    const [line] = await once(createInterface(server.stderr), 'line');
    const url = /http:\S+/.exec(line)![0];
    const initialize = {
      ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
    };
    const post = async (headers: Record<string, string>) => {
      const accept = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      const reply = await fetch(url, {
        ...{ method: 'POST', headers: { ...accept, ...headers }, body: JSON.stringify(initialize) },
      });
      await reply.text();
      return reply;
    };
    const key = { authorization: `Bearer ${platform.env.PLATFORM_API_KEY}` };
    const withoutKey = await post({});
    expect([withoutKey.status, withoutKey.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect((await post(key)).status).toBe(200);
    expect((await post({ ...key, origin: 'https://evil.example' })).status).toBe(403);
    expect((await post({ ...key, origin: 'null' })).status).toBe(403);
    const allowed = await post({ ...key, origin: 'https://app.example' });
    expect([allowed.status, allowed.headers.get('access-control-allow-origin')]).toEqual([200, 'https://app.example']);
    expect((await fetch(url, { headers: key })).status).toBe(405);
    expect((await fetch(`${url}/other`, { headers: key })).status).toBe(404);

    const connect = async (apiKey: string) => {
      const client = new Client({ name: 'test', version: '1' });
      const requestInit = { headers: { authorization: `Bearer ${apiKey}` } };
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }) as never);
      return client;
    };
    const client = await connect(platform.env.PLATFORM_API_KEY!);
    const { sandbox_id } = (await call(client, 'create_sandbox', {})).value;
    const ran = await call(client, 'run_command', { sandbox_id, command: 'hostname' });
    expect(ran.value).toEqual({ exit_code: 0, stdout: `${sandbox_id}\n`, stderr: '' });
    await call(client, 'terminate_sandbox', { sandbox_id });
    await client.close();

    await expect(connect('wrong')).rejects.toThrow('Send an API key');
    const stranger = await connect(`spk_${'x'.repeat(49)}`);
    expect((await call(stranger, 'list_sandboxes', {})).value.code).toBe('unauthenticated');
    await stranger.close();
  } finally {
    server.kill();
    await once(server, 'exit');
  }
}, 300_000);
