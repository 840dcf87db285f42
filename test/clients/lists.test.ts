import { execFile } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { Sandbox } from '../../clients/typescript/src/index.ts';
import { type Caller, startApi, type TestApi } from '../api/test-api.ts';
import { cloneRows } from '../support/cloned-rows.ts';
import { PythonWithClient } from './installed-python.ts';

const run = promisify(execFile);
const commandLine = path.resolve(import.meta.dirname, '../../clients/typescript/src/cli/main.ts');
/** More than two pages of the clients. */
const count = 230;

/** Each client ends the sandboxes of a list while it reads the list. */
let api: TestApi;
let python: PythonWithClient;

beforeAll(async () => {
  [python, api] = await Promise.all([PythonWithClient.make(), startApi({ planName: 'enterprise' })]);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
}, 300_000);

afterAll(async () => {
  python?.remove();
  await api?.stop();
}, 300_000);

/** A new account with running sandboxes, and the settings of a client for it. */
async function withSandboxes(): Promise<{ caller: Caller; env: { PLATFORM_URL: string; PLATFORM_API_KEY: string } }> {
  const caller = await api.addAccount('enterprise');
  const { body } = await api.send(caller, 'POST', '/v1/sandboxes');
  await cloneRows(api.orm.em, 'sandboxes', 'sandbox_id', count - 1, {}, `sandbox_id = '${body.data.sandbox_id}'`);
  const { port } = api.app.server.address() as AddressInfo;
  return { caller, env: { PLATFORM_URL: `http://127.0.0.1:${port}`, PLATFORM_API_KEY: caller.key } };
}

async function countEnded(caller: Caller): Promise<number> {
  const { body } = await api.send(caller, 'GET', '/v1/sandboxes?status=terminated&limit=1');
  return body.data.pagination.total;
}

test('a TypeScript program that ends each running sandbox of the list ends all of them', async () => {
  const { caller, env } = await withSandboxes();
  const connection = { apiUrl: env.PLATFORM_URL, apiKey: env.PLATFORM_API_KEY };
  for await (const { sandbox_id: id } of Sandbox.list({ ...connection, status: 'running' })) {
    await (await Sandbox.get(id, connection)).terminate();
  }
  expect(await countEnded(caller)).toBe(count);
});

const ending = {
  sync: `
from sandbox_platform import Sandbox
for each in Sandbox.list(status="running"):
    with Sandbox.get(each["sandbox_id"]):
        pass
`,
  async: `
import asyncio
from sandbox_platform import AsyncSandbox
async def main():
    async for each in AsyncSandbox.list(status="running"):
        async with await AsyncSandbox.get(each["sandbox_id"]):
            pass
asyncio.run(main())
`,
};

test.each(Object.entries(ending))(
  'a Python program (%s) that ends each running sandbox of the list ends all of them',
  async (_kind, program) => {
    const { caller, env } = await withSandboxes();
    await python.run(['-c', program], env);
    expect(await countEnded(caller)).toBe(count);
  },
  120_000,
);

test('the command line lists every sandbox once', async () => {
  const { env } = await withSandboxes();
  const { stdout } = await run(process.execPath, [commandLine, 'ls'], { env: { ...process.env, ...env } });
  const ids = stdout.match(/^sbx-\w+/gm)!;
  expect(ids.length).toBe(count);
  expect(new Set(ids).size).toBe(count);
});
