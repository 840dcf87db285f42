import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';

/** The gateway's addresses for E2B's SDKs, with the platform's own processes. */
let platform: RunningPlatform;
let sandbox: SandboxView;
let gatewayPort: number;
let baseDomain: string;

beforeAll(async () => {
  platform = await RunningPlatform.shared();
  sandbox = await platform.client().createSandbox({ template: 'base' });
  const [, domain, port] = /^[^.]+\.(.+):(\d+)$/.exec(sandbox.sandbox_domain)!;
  baseDomain = domain!;
  gatewayPort = Number(port);
}, 180_000);
afterAll(() => platform?.leave(), 180_000);

async function send(
  host: string,
  target: string,
  { headers = {}, body }: { headers?: http.OutgoingHttpHeaders; body?: object } = {},
) {
  const request = http.request({
    host: '127.0.0.1',
    port: gatewayPort,
    // The gateway and the API see it as the client's address. Their own connections come from another one.
    localAddress: '127.0.0.5',
    path: target,
    method: body ? 'POST' : 'GET',
    headers: { host, ...headers },
    agent: false,
  });
  request.end(body && JSON.stringify(body));
  const reply = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.once('error', reject);
  });
  return { status: reply.statusCode, text: await text(reply) };
}

test("one address serves all sandboxes: the agent's services and the code interpreter", async () => {
  const named = (port: number) => ({ 'E2b-Sandbox-Id': sandbox.sandbox_id, 'E2b-Sandbox-Port': port });
  const token = sandbox.envd_access_token;
  const health = await send('localhost', '/health', { headers: named(49983) });
  expect([200, 204]).toContain(health.status);
  const body = { code: 'echo $HOSTNAME', language: 'bash' };
  const refused = await send('localhost', '/execute', { headers: named(49999), body });
  expect(refused).toEqual({ status: 401, text: 'access token missing or wrong' });
  for (const field of ['X-Access-Token', 'E2B-Traffic-Access-Token']) {
    const reply = await send(baseDomain, '/execute', { headers: { ...named(49999), [field]: token }, body });
    expect(reply.status).toBe(200);
    const [first] = reply.text.split('\n');
    expect(JSON.parse(first!)).toMatchObject({ type: 'stdout', text: `${sandbox.sandbox_id}\n` });
  }
});

test('the API answers at its host name, and knows the client and not the gateway', async () => {
  const requestId = randomUUID();
  const reply = await send(`api.${baseDomain}`, '/sandboxes', { headers: { 'X-Request-Id': requestId } });
  expect([401, 404]).toContain(reply.status);
  const log = path.join(platform.dataDir, 'logs', 'api.log');
  const entries = () =>
    fs
      .readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes(requestId))
      .map((line) => JSON.parse(line));
  await until(() => entries().some(({ msg }) => msg === 'request'));
  expect(entries().find(({ msg }) => msg === 'request').remote_address).toBe('127.0.0.5');
});
