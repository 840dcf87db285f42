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
    ...['create_sandbox', 'list_files', 'list_sandboxes', 'open_port', 'read_file', 'run_code', 'run_command'],
    ...['terminate_sandbox', 'write_file'],
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
