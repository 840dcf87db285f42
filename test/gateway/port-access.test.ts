import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { fileSignature } from '../../agent/http/access.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { signQuery } from '../../gateway/signed-query.ts';
import { RawConnection, type Reply, send, sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const agentToken = 'token-of-sbx-locked';
let started: StartedGateway;
let service: UpstreamServer;
let agent: UpstreamServer;

beforeAll(async () => {
  started = await startGateway();
  service = await startHttpUpstream((request, response) => {
    response.end(JSON.stringify({ url: request.url, headers: request.headers }));
  });
  agent = await startHttpUpstream((request, response) => response.end(`agent ${request.headers['x-access-token']}`));
  const base = { address: service.address, agentPort: agent.port };
  const tcp = { servicePort: service.port, protocol: 'TCP' as const };
  const ports = [
    { ...tcp, port: 3000, isProtected: false },
    { ...tcp, port: 3001, isProtected: true },
    { ...tcp, port: 3002, protocol: 'UDP' as const, isProtected: false },
    { ...tcp, port: 3003, protocol: 'WEBRTC' as const, isProtected: false },
    { port: 3004, servicePort: agent.port, protocol: 'TCP' as const, isProtected: false },
  ];
  started.routes.set({ ...base, sandboxId: 'sbx-locked', secure: true, accessToken: agentToken, ports });
  started.routes.set({ ...base, sandboxId: 'sbx-open', secure: false, accessToken: agentToken, ports });
  started.routes.set({ ...base, sandboxId: 'sbx-keyless', secure: true, accessToken: null, ports });
});

afterAll(async () => {
  await started.stop();
  await Promise.all([service.stop(), agent.stop()]);
});

function call(
  sandboxId: SandboxId,
  port: number | undefined,
  options: { path?: string; method?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  return send({ port: started.port, host: formatHost(sandboxId, port), ...options });
}

test('agent requests pass with any token: the agent checks it', async () => {
  expect((await call('sbx-locked', undefined, { headers: { 'x-access-token': 'wrong' } })).text).toBe('agent wrong');
});

test.each([
  ['a declared port', 'sbx-locked', 3000],
  ['a declared WEBRTC port', 'sbx-locked', 3003],
  ['a declared port of an open sandbox', 'sbx-open', 3000],
] as const)('%s is public', async (_what, sandboxId, port) => {
  expect((await call(sandboxId, port)).status).toBe(200);
});

test('an undeclared port is public in an open sandbox', async () => {
  expect((await call('sbx-open', service.port)).status).toBe(200);
});

test.each([
  ['a protected port', 'sbx-locked', (): number => 3001],
  ['a protected port of an open sandbox', 'sbx-open', (): number => 3001],
  ['an undeclared port of a secure sandbox', 'sbx-locked', (): number => service.port],
  ['a protected port of a sandbox without a token', 'sbx-keyless', (): number => 3001],
] as const)('%s asks for the token', async (_what, sandboxId, port) => {
  for (const headers of [
    {},
    { 'x-access-token': '' },
    { 'x-access-token': `${agentToken}x` },
    { 'x-access-token': 'null' },
  ]) {
    const reply = await call(sandboxId, port(), { headers: headers as Record<string, string> });
    expect([reply.status, reply.json.code]).toEqual([401, 'unauthenticated']);
  }
});

test.each([
  ['a protected port', () => 3001],
  ['an undeclared port', () => service.port],
])('the token opens %s, and is not forwarded to the service', async (_what, port) => {
  const reply = await call('sbx-locked', port(), { headers: { 'X-Access-Token': agentToken, 'x-other': '1' } });
  expect(reply.status).toBe(200);
  expect(reply.json.headers['x-other']).toBe('1');
  expect(reply.text).not.toContain(agentToken);
});

test('the token is not forwarded to a public port either', async () => {
  const reply = await call('sbx-locked', 3000, { headers: { 'x-access-token': agentToken } });
  expect(reply.text).not.toContain(agentToken);
});

test('two tokens count as no token', async () => {
  const answer = await sendRaw(
    started.port,
    `GET / HTTP/1.1\r\nHost: ${formatHost('sbx-locked', 3001)}\r\nX-Access-Token: ${agentToken}\r\nX-Access-Token: ${agentToken}\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 401 /);
});

test('a UDP port is not HTTP', async () => {
  const reply = await call('sbx-locked', 3002, { headers: { 'x-access-token': agentToken } });
  expect([reply.status, reply.json.code]).toEqual([404, 'port_not_http']);
});

test('a declared port that leads to the agent has the agent’s rules', async () => {
  expect((await call('sbx-locked', 3004, { headers: { 'x-access-token': 'mine' } })).text).toBe('agent mine');
  expect((await call('sbx-locked', 3004, { path: '/platform/state' })).json.code).toBe('not_found');
});

const now = Math.floor(Date.now() / 1000);
const sign = (
  path: string,
  operation: 'read' | 'write',
  token: string,
  expiry: number | null,
  { sandboxId = 'sbx-locked', port = 3001 }: { sandboxId?: SandboxId; port?: number } = {},
) => signQuery({ sandboxId, port, path, operation }, token, expiry);
const signed = (signature: string, expiry?: number) =>
  `signature=${encodeURIComponent(signature)}${expiry === undefined ? '' : `&signature_expiration=${expiry}`}`;

test('the signature is computed as the README describes', () => {
  const text = `/:port-read:3001-sbx-locked:${agentToken}:1700000000`;
  const hash = createHash('sha256').update(text).digest('base64').replace(/=+$/, '');
  expect(sign('/', 'read', agentToken, 1_700_000_000)).toBe(`v1_${hash}`);
});

test('a signature opens no other port and no other sandbox, and a signature for a file opens no port', async () => {
  const opens = async (sandboxId: SandboxId, port: number, signature: string, path = '/') =>
    (await call(sandboxId, port, { path: `${path}?${signed(signature)}` })).status;
  const signature = sign('/', 'read', agentToken, null);
  expect(await opens('sbx-locked', 3001, signature)).toBe(200);
  expect(await opens('sbx-locked', service.port, signature)).toBe(401);
  // With the same token, which two real sandboxes never have.
  expect(await opens('sbx-open', 3001, signature)).toBe(401);
  const ofUndeclared = sign('/', 'read', agentToken, null, { port: service.port });
  expect(await opens('sbx-locked', service.port, ofUndeclared)).toBe(200);
  expect(await opens('sbx-locked', 3001, ofUndeclared)).toBe(401);
  for (const operation of ['read', 'write'] as const) {
    const file = { path: '/', operation, username: '3001-sbx-locked', expiration: null };
    expect(await opens('sbx-locked', 3001, fileSignature(file, agentToken))).toBe(401);
    expect(await opens('sbx-locked', 3001, fileSignature({ ...file, username: 'root' }, agentToken))).toBe(401);
  }
});

test('a signature for one path opens no other that decodes to the same', async () => {
  const signature = sign('/a/b', 'read', agentToken, null);
  const readStatus = async (path: string) =>
    (await call('sbx-locked', 3001, { path: `${path}?${signed(signature)}` })).status;
  expect(await readStatus('/a/b')).toBe(200);
  expect(await readStatus('/%61/b')).toBe(200);
  expect(await readStatus('/a%2fb')).toBe(401);
  expect(await readStatus('/a%2Fb')).toBe(401);
  const odd = sign('/%zz', 'read', agentToken, null);
  expect((await call('sbx-locked', 3001, { path: `/%zz?${signed(odd)}` })).status).toBe(401);
  expect((await call('sbx-locked', 3001, { path: `/%25zz?${signed(odd)}` })).status).toBe(200);
});

test.each([
  ['for reading', 'GET', '/', signed(sign('/', 'read', agentToken, null))],
  ['for reading, until later', 'HEAD', '/a/b', signed(sign('/', 'read', agentToken, now + 3600), now + 3600)],
  ['for writing, which is also reading', 'GET', '/', signed(sign('/', 'write', agentToken, null))],
  ['for writing', 'POST', '/', signed(sign('/', 'write', agentToken, null))],
  ['for one exact path', 'GET', '/a%20b', signed(sign('/a b', 'read', agentToken, null))],
])('a query signed %s opens a protected port', async (_what, method, path, query) => {
  expect((await call('sbx-locked', 3001, { method, path: `${path}?x=1&${query}&y=%20` })).status).toBe(200);
});

test('a signature with an unescaped plus sign is accepted', async () => {
  let expiry = now + 3600;
  while (!sign('/', 'read', agentToken, expiry).includes('+')) expiry++;
  const path = `/?signature=${sign('/', 'read', agentToken, expiry)}&signature_expiration=${expiry}`;
  expect((await call('sbx-locked', 3001, { path })).status).toBe(200);
});

test.each([
  ['of another sandbox', 'GET', signed(sign('/', 'read', 'token-of-another', null))],
  ['for reading only', 'POST', signed(sign('/', 'read', agentToken, null))],
  ['for another path', 'GET', signed(sign('/other', 'read', agentToken, null))],
  ['until a moment ago', 'GET', signed(sign('/', 'read', agentToken, now - 1), now - 1)],
  ['until sooner than it says', 'GET', signed(sign('/', 'read', agentToken, now - 1), now + 3600)],
  ['without the end it says', 'GET', signed(sign('/', 'read', agentToken, null), now + 3600)],
  ['with an end that is not a number', 'GET', `${signed(sign('/', 'read', agentToken, null))}&signature_expiration=x`],
  ['with nothing', 'GET', 'signature=&signature_expiration='],
])('a query signed %s opens nothing', async (_what, method, query) => {
  expect((await call('sbx-locked', 3001, { method, path: `/?${query}` })).status).toBe(401);
});

test('only the signature is removed from the request to the service', async () => {
  const query = signed(sign('/', 'read', agentToken, now + 3600), now + 3600);
  const reply = await call('sbx-locked', 3001, { path: `/p?a=%2f&${query}&b&c=1+2&signatures=mine` });
  expect(reply.json.url).toBe('/p?a=%2f&b&c=1+2&signatures=mine');
  const alone = await call('sbx-locked', 3001, { path: `/p?${query}` });
  expect(alone.json.url).toBe('/p');
});

test('a public port gets its own parameters of that name', async () => {
  const reply = await call('sbx-locked', 3000, { path: '/?signature=abc&signature_expiration=1' });
  expect(reply.json.url).toBe('/?signature=abc&signature_expiration=1');
});

test('a signature for reading does not open a WebSocket', async () => {
  const query = signed(sign('/', 'read', agentToken, null));
  const connection = new RawConnection(started.port);
  connection.write(
    `GET /?${query} HTTP/1.1\r\nHost: ${formatHost('sbx-locked', 3001)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n',
  );
  await connection.expect('401 Unauthorized');
  connection.destroy();
});
