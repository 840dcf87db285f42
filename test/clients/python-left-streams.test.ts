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

/** Streams of commands that are open now. */
let open = 0;

/** The API with one sandbox, and its agent. Commands write without end; those of `sbx-ends` end, but their streams do not. */
function answer(request: http.IncomingMessage, reply: http.ServerResponse): void {
  request.resume();
  if (request.url!.startsWith('/v1/')) {
    const token = request.url!.endsWith('sbx-ends') ? 'ends' : 'token';
    const data = { sandbox_id: 'sbx-1', sandbox_domain: 'sbx-1.localhost', envd_access_token: token };
    reply.end(JSON.stringify({ success: true, data }));
    return;
  }
  if (request.url === '/open') {
    reply.end(String(open));
    return;
  }
  open += 1;
  reply.on('close', () => {
    open -= 1;
  });
  reply.write(frame({ event: { start: { pid: 7 } } }));
  if (request.headers['x-access-token'] === 'ends') {
    reply.write(frame({ event: { end: { exitCode: 0 } } }));
    return;
  }
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

test('a command with a time limit that has ended leaves no stream to the garbage collector', async () => {
  const program = `
import gc, os, time, urllib.request
from sandbox_platform import Sandbox

gc.disable()
sandbox = Sandbox.get("sbx-ends")
print(sandbox.commands.run("true", timeout=60).exit_code)
for _ in range(100):
    left = urllib.request.urlopen(os.environ["PLATFORM_URL"] + "/open").read().decode()
    if left == "0":
        break
    time.sleep(0.1)
print(left)
`;
  const given = { PLATFORM_URL: url, PLATFORM_GATEWAY: url, PLATFORM_API_KEY: 'key' };
  expect(await python.run(['-c', program], given)).toBe('0\n0\n');
});
