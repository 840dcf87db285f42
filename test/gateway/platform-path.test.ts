import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isPlatformPath } from '../../gateway/platform-path.ts';
import { sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

let started: StartedGateway;
let agent: UpstreamServer;
const seen: string[] = [];

beforeAll(async () => {
  started = await startGateway();
  agent = await startHttpUpstream((request, response) => {
    seen.push(request.url!);
    response.end('reached');
  });
  started.routes.set({ sandboxId: 'sbx-one', address: agent.address, agentPort: agent.port });
});

afterAll(async () => {
  await started.stop();
  await agent.stop();
});

const tricks = [
  '/platform',
  '/platform/',
  '/platform/state',
  '/platform?x',
  '/platform/../health',
  '/PLATFORM/state',
  '/PlatForm/state',
  '//platform/state',
  '///platform//state',
  '/./platform/state',
  '/.//platform/state',
  '/../platform/state',
  '/../../platform/state',
  '/x/../platform/state',
  '/download/../platform/state',
  '/download/a/../../platform/state',
  '/%70latform/state',
  '/%70%6c%61%74%66%6f%72%6d/state',
  '/%2570latform/state',
  '/%25252570latform/state',
  '/%2fplatform/state',
  '/%2Fplatform%2Fstate',
  '/platform%2fstate',
  '/platform%2f..%2fhealth',
  '/%2e/platform/state',
  '/%2e%2e/platform/state',
  '/x/%2e%2e/platform/state',
  '/x%2f..%2fplatform/state',
  '/x/..%2fplatform/state',
  '/x/%252e%252e/platform/state',
  '/x/..\\platform/state',
  '/\\platform/state',
  '/%5cplatform/state',
  '/x%5c..%5cplatform',
  '/platform;a=b/state',
  '/platform%3ba=b/state',
  '/;x/platform/state',
  '/platform%00/state',
  '/%00platform/state',
  '/platform%20/state',
  '/platform%09',
  '/platform./state',
  '/platform%3fx',
  '/platform%23x',
  '/%ef%bd%90latform/state',
  '/pl%c2%adatform/state',
  '/%70%6C%61%74%66%6F%72%6D%2F%73%74%61%74%65',
];

test.each(tricks)('%s gets the reply of a missing path', async (target) => {
  const answer = await sendRaw(
    started.port,
    `GET ${target} HTTP/1.1\r\nHost: ${formatHost('sbx-one')}\r\nX-Platform-Token: t\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 404 /);
  expect(seen).toEqual([]);
});

test('the same with an absolute form, and with the agent’s port', async () => {
  for (const request of [
    `GET http://${formatHost('sbx-one')}/platform/state HTTP/1.1\r\nHost: ${formatHost('sbx-one')}\r\n\r\n`,
    `GET HTTP://${formatHost('sbx-one')}//platform/state HTTP/1.1\r\nHost: ${formatHost('sbx-one')}\r\n\r\n`,
    `GET /platform/state HTTP/1.1\r\nHost: ${formatHost('sbx-one', agent.port)}\r\n\r\n`,
    `POST /platform/init HTTP/1.1\r\nHost: ${formatHost('sbx-one')}\r\nContent-Length: 0\r\n\r\n`,
  ]) {
    expect(await sendRaw(started.port, request)).toMatch(/^HTTP\/1\.1 404 /);
  }
  expect(seen).toEqual([]);
});

test.each([
  '/',
  '/health',
  '/sandboxagent.Process/Start',
  '/download/platform/file',
  '/download//platform/file',
  '/download/%2e%2e/x',
  '/download/a%20b/%70latform',
  '/platforms',
  '/platform-x/state',
  '/my/platform',
  '/?next=/platform/state',
  '/health?/../platform',
  '/download/100%',
  '/download/%zz%',
  '/download/%e4%bd%a0',
])('%s is an ordinary path', (target) => {
  expect(isPlatformPath(target)).toBe(false);
});

test('a path with very many layers of encoding is refused quickly', () => {
  const startedAt = performance.now();
  expect(isPlatformPath(`/%${'25'.repeat(5000)}70latform`)).toBe(true);
  expect(isPlatformPath('/../x'.repeat(6000))).toBe(false);
  expect(isPlatformPath(`/${'%70'.repeat(10_000)}`)).toBe(false);
  expect(performance.now() - startedAt).toBeLessThan(5000);
});

test('a service on another port may have such a path', async () => {
  const service = await startHttpUpstream((_request, response) => response.end('mine'));
  const answer = await sendRaw(
    started.port,
    `GET /platform/x HTTP/1.1\r\nHost: ${formatHost('sbx-one', service.port)}\r\n\r\n`,
    /mine/,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  await service.stop();
});
