import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { createMcpServer } from '../../clients/mcp/src/tools.ts';
import { Sandbox } from '../../clients/typescript/src/index.ts';
import { until } from '../support/until.ts';

// The MCP server works for several callers in one process, and root in a sandbox may replace the agent.

type Answer = (request: http.IncomingMessage, reply: http.ServerResponse) => void;

const mebibyte = 1024 * 1024;
const sandboxId = 'sbx-hostile';
let answers: Record<string, Answer>;
let servers: http.Server[];
let connection: { apiUrl: string; apiKey: string; gatewayUrl: string };
let client: Client;
/** Requests at the agent whose connections are open. */
let open: number;

beforeEach(async () => {
  answers = {};
  servers = [];
  open = 0;
  const data = { sandbox_id: sandboxId, sandbox_domain: `${sandboxId}.test`, envd_access_token: 'token' };
  const apiUrl = await serve((_, reply) => reply.end(JSON.stringify({ success: true, data })));
  const gatewayUrl = await serve((request, reply) => {
    open += 1;
    reply.once('close', () => {
      open -= 1;
    });
    request.resume();
    answers[request.url!.split('/')[1]!.replace('sandboxagent.', '') + methodOf(request.url!)]!(request, reply);
  });
  connection = { apiUrl, apiKey: 'key', gatewayUrl };
  client = new Client({ name: 'test', version: '1' });
  const [mine, theirs] = InMemoryTransport.createLinkedPair();
  await Promise.all([createMcpServer(connection).connect(theirs), client.connect(mine)]);
});
afterEach(async () => {
  await client.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

const methodOf = (url: string) => (url.startsWith('/sandboxagent.') ? `/${url.split('/')[2]}` : '');

async function serve(answer: Answer): Promise<string> {
  const server = http.createServer(answer).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Calls a tool; the JSON of its text. */
async function call(name: string, args: Record<string, unknown>, signal?: AbortSignal) {
  const options = { timeout: 60_000, ...(signal && { signal }) };
  const result = await client.callTool({ name, arguments: { sandbox_id: sandboxId, ...args } }, undefined, options);
  const [first] = result.content as { text: string }[];
  return { isError: result.isError, value: JSON.parse(first!.text) };
}

const json =
  (value: unknown): Answer =>
  (_, reply) =>
    reply.end(JSON.stringify(value));

/** The same bytes without end, as fast as the client reads them. */
const endless =
  (bytes: Buffer): Answer =>
  (_, reply) => {
    const fill = () => {
      while (!reply.destroyed && reply.write(bytes)) {}
    };
    reply.on('drain', fill);
    fill();
  };

function frame(message: unknown, flags = 0): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

test('a file that grows without end behind its size is given up', async () => {
  answers['Filesystem/Stat'] = json({ entry: { path: '/a', size: '5', type: 'FILE_TYPE_FILE' } });
  answers.download = endless(Buffer.alloc(mebibyte));
  const { isError, value } = await call('read_file', { path: '/a' });
  expect([isError, value.code]).toEqual([true, 'bad_reply']);
  await until(() => open === 0);
});

test('a file that is longer than its size is too large', async () => {
  answers['Filesystem/Stat'] = json({ entry: { path: '/a', size: '5', type: 'FILE_TYPE_FILE' } });
  answers.download = (_, reply) => reply.end(Buffer.alloc(mebibyte));
  expect((await call('read_file', { path: '/a' })).value.code).toBe('file_too_large');
});

test('a list without end, and a message that says it is long, are given up', async () => {
  answers['Filesystem/ListDir'] = endless(Buffer.alloc(mebibyte, ' '));
  expect((await call('list_files', { path: '/' })).value.code).toBe('bad_reply');
  answers['ExecutionService/Execute'] = (_, reply) => reply.write(Buffer.from([0, 0x02, 0, 0, 0, 1]));
  expect((await call('run_code', { code: '1' })).value.code).toBe('bad_reply');
  await until(() => open === 0);
});

test('much output and many results of code are cut while they come', async () => {
  const png = Buffer.alloc(mebibyte, 'x').toString('latin1');
  answers['ExecutionService/Execute'] = async (_, reply) => {
    for (let at = 0; at < 40; at += 1) {
      reply.write(frame({ stdout: { content: 'a'.repeat(mebibyte) } }));
      if (!reply.write(frame({ result: { png, extra: {}, isMainResult: false } }))) await once(reply, 'drain');
    }
    reply.write(frame({ stdout: { content: 'end' } }));
    reply.end(frame({}, 2));
  };
  const { value } = await call('run_code', { code: 'print()' });
  expect([value.stdout.length, value.stdout.slice(-4), value.truncated]).toEqual([65_536, 'aend', true]);

  const sandbox = await Sandbox.connect(sandboxId, connection);
  const bounds = { maxOutputLength: 1000, maxResultsLength: 3 * mebibyte };
  const { results, stdout, truncated } = await sandbox.runCode('print()', bounds);
  expect([results.length, stdout.length, truncated]).toEqual([2, 1000, true]);
});

test.each([
  ['confirms the kill and goes on', json({})],
  ['does not answer the kill', () => {}],
] as [string, Answer][])('the stream of a killed command is closed when the agent %s', async (_what, kill) => {
  answers['Filesystem/Stat'] = json({ entry: { path: '/root', size: '0' } });
  answers['Process/Start'] = (_, reply) => reply.write(frame({ event: { start: { pid: 7 } } }));
  answers['Process/SendSignal'] = kill;
  const { isError, value } = await call('run_command', { command: 'true', timeout_seconds: 1 });
  expect([isError, value.code]).toEqual([true, 'timed_out']);
});

test('the stream of code that does not end in time is closed', async () => {
  answers['ExecutionService/Execute'] = (_, reply) => reply.write(frame({ stdout: { content: 'a' } }));
  const { isError, value } = await call('run_code', { code: 'while True: pass', timeout_seconds: 1 });
  expect([isError, value.code]).toEqual([true, 'timed_out']);
  await until(() => open === 0);
});

test('a caller who cancels leaves no request at an agent that never answers', async () => {
  answers['Filesystem/ListDir'] = () => {};
  const cancel = new AbortController();
  const called = call('list_files', { path: '/' }, cancel.signal);
  called.catch(() => {});
  await until(() => open === 1);
  cancel.abort();
  await expect(called).rejects.toThrow();
  await until(() => open === 0);
});
