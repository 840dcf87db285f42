import { once } from 'node:events';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { createMcpServer } from '../../clients/mcp/src/tools.ts';
import { Sandbox } from '../../clients/typescript/src/index.ts';
import { until } from '../support/until.ts';
import { type Answer, frame, HostileAgent, json } from './hostile-agent.ts';

// The MCP server works for several callers in one process, and root in a sandbox may replace the agent.

const mebibyte = 1024 * 1024;
let agent: HostileAgent;
let client: Client;

beforeEach(async () => {
  agent = new HostileAgent();
  await agent.start();
  client = new Client({ name: 'test', version: '1' });
  const [mine, theirs] = InMemoryTransport.createLinkedPair();
  await Promise.all([createMcpServer(agent.connection).connect(theirs), client.connect(mine)]);
});
afterEach(async () => {
  await client.close();
  agent.stop();
});

/** Calls a tool; the JSON of its text. */
async function call(name: string, args: Record<string, unknown>, signal?: AbortSignal) {
  const options = { timeout: 60_000, ...(signal && { signal }) };
  const given = { sandbox_id: agent.sandboxId, ...args };
  const result = await client.callTool({ name, arguments: given }, undefined, options);
  const [first] = result.content as { text: string }[];
  return { isError: result.isError, value: JSON.parse(first!.text) };
}

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

test('a file that grows without end behind its size is given up', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: { path: '/a', size: '5', type: 'FILE_TYPE_FILE' } });
  agent.answers.download = endless(Buffer.alloc(mebibyte));
  const { isError, value } = await call('read_file', { path: '/a' });
  expect([isError, value.code]).toEqual([true, 'bad_reply']);
  await until(() => agent.open === 0);
});

test('a file that is longer than its size is too large', async () => {
  agent.answers['Filesystem/Stat'] = json({ entry: { path: '/a', size: '5', type: 'FILE_TYPE_FILE' } });
  agent.answers.download = (_, reply) => reply.end(Buffer.alloc(mebibyte));
  expect((await call('read_file', { path: '/a' })).value.code).toBe('file_too_large');
});

test('a list without end, and a message that says it is long, are given up', async () => {
  agent.answers['Filesystem/ListDir'] = endless(Buffer.alloc(mebibyte, ' '));
  expect((await call('list_files', { path: '/' })).value.code).toBe('bad_reply');
  agent.answers['ExecutionService/Execute'] = (_, reply) => reply.write(Buffer.from([0, 0x02, 0, 0, 0, 1]));
  expect((await call('run_code', { code: '1' })).value.code).toBe('bad_reply');
  await until(() => agent.open === 0);
});

test('much output and many results of code are cut while they come', async () => {
  const png = Buffer.alloc(mebibyte, 'x').toString('latin1');
  agent.answers['ExecutionService/Execute'] = async (_, reply) => {
    for (let at = 0; at < 40; at += 1) {
      reply.write(frame({ stdout: { content: 'a'.repeat(mebibyte) } }));
      if (!reply.write(frame({ result: { png, extra: {}, isMainResult: false } }))) await once(reply, 'drain');
    }
    reply.write(frame({ stdout: { content: 'end' } }));
    reply.end(frame({}, 2));
  };
  const { value } = await call('run_code', { code: 'print()' });
  expect([value.stdout.length, value.stdout.slice(-4), value.truncated]).toEqual([65_536, 'aend', true]);

  const sandbox = await Sandbox.connect(agent.sandboxId, agent.connection);
  const bounds = { maxOutputLength: 1000, maxResultsLength: 3 * mebibyte };
  const { results, stdout, truncated } = await sandbox.runCode('print()', bounds);
  expect([results.length, stdout.length, truncated]).toEqual([2, 1000, true]);
});

test.each([
  ['confirms the kill and goes on', json({})],
  ['does not answer the kill', () => {}],
] as [string, Answer][])('the stream of a killed command is closed when the agent %s', async (_what, kill) => {
  agent.answers['Filesystem/Stat'] = json({ entry: { path: '/root', size: '0' } });
  agent.answers['Process/Start'] = (_, reply) => reply.write(frame({ event: { start: { pid: 7 } } }));
  agent.answers['Process/SendSignal'] = kill;
  const { isError, value } = await call('run_command', { command: 'true', timeout_seconds: 1 });
  expect([isError, value.code]).toEqual([true, 'timed_out']);
});

test('the stream of code that does not end in time is closed', async () => {
  agent.answers['ExecutionService/Execute'] = (_, reply) => reply.write(frame({ stdout: { content: 'a' } }));
  const { isError, value } = await call('run_code', { code: 'while True: pass', timeout_seconds: 1 });
  expect([isError, value.code]).toEqual([true, 'timed_out']);
  await until(() => agent.open === 0);
});

test('a caller who cancels leaves no request at an agent that never answers', async () => {
  agent.answers['Filesystem/ListDir'] = () => {};
  const cancel = new AbortController();
  const called = call('list_files', { path: '/' }, cancel.signal);
  called.catch(() => {});
  await until(() => agent.open === 1);
  cancel.abort();
  await expect(called).rejects.toThrow();
  await until(() => agent.open === 0);
});
