import { execFile } from 'node:child_process';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');

/** As `npm run try` runs it. */
async function tryOn(url: string): Promise<{ code: number; stderr: string }> {
  const env = { ...process.env, NODE_OPTIONS: '', PLATFORM_URL: url, PLATFORM_API_KEY: 'key' };
  return run(process.execPath, ['ops/development/try.ts'], { cwd: root, env }).then(
    ({ stderr }) => ({ code: 0, stderr }),
    ({ code, stderr }) => ({ code, stderr }),
  );
}

test('a platform that is down, and one that refuses, are reported in one line', async () => {
  const reply = { success: false, code: 'unauthenticated', error: 'The API key is not valid' };
  const server = http.createServer((_, res) => res.writeHead(401).end(JSON.stringify(reply)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const refused = await tryOn(url);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  expect(refused).toEqual({ code: 1, stderr: `${url}: create: 401 unauthenticated: The API key is not valid\n` });
  const down = await tryOn(url);
  expect([down.code, down.stderr]).toEqual([1, expect.stringMatching(/no platform answers .*npm start\n$/)]);
});
