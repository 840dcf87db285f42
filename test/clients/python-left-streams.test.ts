import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PythonWithClient } from './installed-python.ts';

let python: PythonWithClient;
let server: http.Server;
let url: string;

beforeAll(async () => {
  python = await PythonWithClient.make();
  server = http.createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}, 300_000);
afterAll(() => {
  server?.closeAllConnections();
  server?.close();
  python?.remove();
});

/** The API with one sandbox, and its agent, whose commands write without end. */
function answer(request: http.IncomingMessage, reply: http.ServerResponse): void {
  request.resume();
  if (request.url!.startsWith('/v1/')) {
    const data = { sandbox_id: 'sbx-1', sandbox_domain: 'sbx-1.localhost', envd_access_token: 'token' };
    reply.end(JSON.stringify({ success: true, data }));
    return;
  }
  reply.write(frame({ event: { start: { pid: 7 } } }));
  const timer = setInterval(() => reply.write(frame({ event: { data: { stdout: 'eA==' } } })), 10);
  reply.on('close', () => clearInterval(timer));
}

/** A message in a frame of a Connect stream. */
function frame(message: object): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

const program = (leave: string) => `
import asyncio
from sandbox_platform import AsyncSandbox

async def main():
    asyncio.get_running_loop().set_exception_handler(lambda _, context: print(context["message"]))
    sandbox = await AsyncSandbox.get("sbx-1")
    command = await sandbox.commands.run("yes", background=True)
${leave.replace(/^/gm, '    ')}
    print("left")

asyncio.run(main())
`;

const readOne = 'async for _ in command:\n    break';

test.each([
  ['with break', readOne],
  ['twice', `${readOne}\n${readOne}`],
  ['by closing the iterator', 'output = command.__aiter__()\nawait output.__anext__()\nawait output.aclose()'],
  ['by a time limit', 'try:\n    await asyncio.wait_for(command.wait(), 0.2)\nexcept asyncio.TimeoutError:\n    pass'],
  ['and the sandbox is closed', `${readOne}\nawait sandbox.close()`],
])('a program that leaves a stream %s and ends gets no error of asyncio', async (_how, leave) => {
  const given = { PLATFORM_URL: url, PLATFORM_GATEWAY: url, PLATFORM_API_KEY: 'key' };
  expect(await python.run(['-c', program(leave)], given)).toBe('left\n');
});
