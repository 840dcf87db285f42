import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { RouteCache } from '../../gateway/route-cache.ts';
import { until } from '../support/until.ts';
import { send } from './client.ts';
import { formatHost, type StartedGateway, startGateway, testDomain } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

let started: StartedGateway;
let agent: UpstreamServer;
let web: UpstreamServer;

beforeAll(async () => {
  started = await startGateway();
  agent = await startHttpUpstream((request, response) => response.end(`agent ${request.url}`), '127.0.0.2');
  web = await startHttpUpstream((request, response) => response.end(`web ${request.url}`), '127.0.0.2');
  started.routes.set({ sandboxId: 'sbx-one', address: agent.address, agentPort: agent.port });
});

afterAll(async () => {
  await started.stop();
  await Promise.all([agent.stop(), web.stop()]);
});

test('a sandbox host reaches its agent', async () => {
  const reply = await send({ port: started.port, host: formatHost('sbx-one'), path: '/health?x=1' });
  expect(reply.status).toBe(200);
  expect(reply.text).toBe('agent /health?x=1');
  expect(reply.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
});

test.each([
  ['upper case', 'SBX-ONE.Sandbox.LOCALHOST'],
  ['a trailing dot', `sbx-one.${testDomain}.`],
  ['the public port', `sbx-one.${testDomain}:443`],
  ['a trailing dot and a port', `sbx-one.${testDomain}.:7081`],
])('a host with %s is the same sandbox', async (_what, host) => {
  expect((await send({ port: started.port, host })).text).toBe('agent /');
});

test('a host name with a port reaches that port of the sandbox', async () => {
  const reply = await send({ port: started.port, host: formatHost('sbx-one', web.port), path: '/page' });
  expect(reply.text).toBe('web /page');
});

test('the port of the agent in the host name reaches the agent', async () => {
  expect((await send({ port: started.port, host: formatHost('sbx-one', agent.port) })).text).toBe('agent /');
});

test('a declared port leads to its service port', async () => {
  const port = { port: 3000, servicePort: web.port, protocol: 'TCP' as const, isProtected: false };
  started.routes.set({ sandboxId: 'sbx-mapped', address: web.address, agentPort: agent.port, ports: [port] });
  expect((await send({ port: started.port, host: formatHost('sbx-mapped', 3000) })).text).toBe('web /');
});

test('an unknown sandbox answers 404 in the format of all errors', async () => {
  const reply = await send({ port: started.port, host: formatHost('sbx-nobody') });
  expect(reply.status).toBe(404);
  expect(reply.json).toEqual({
    success: false,
    error: 'No such sandbox',
    code: 'sandbox_not_found',
    request_id: reply.headers['x-request-id'],
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  });
  expect(reply.headers['content-type']).toBe('application/json');
});

test.each([
  'example.com',
  'localhost',
  `x.${testDomain}`,
  `a.sbx-one.${testDomain}`,
  `sbx-one.${testDomain}.evil.com`,
  `evil${testDomain}`,
  `0-sbx-one.${testDomain}`,
  `65536-sbx-one.${testDomain}`,
  `080-sbx-one.${testDomain}`,
  `sbx-.${testDomain}`,
  `sbx-${'a'.repeat(64)}.${testDomain}`,
])('the host %s is unknown and never looked up', async (host) => {
  const before = started.routes.lookups.length;
  const reply = await send({ port: started.port, host });
  expect([reply.status, reply.json.code]).toEqual([404, 'unknown_host']);
  expect(started.routes.lookups.length).toBe(before);
});

test.each(['created', 'starting', 'pausing', 'paused', 'resuming', 'terminating', 'terminated', 'failed'])(
  'a sandbox that is %s answers 502',
  async (status) => {
    started.routes.set({ sandboxId: 'sbx-states', address: agent.address, agentPort: agent.port, status });
    const reply = await send({ port: started.port, host: formatHost('sbx-states') });
    expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_not_running']);
  },
);

test('the reply for a paused sandbox says that it is paused and how to resume it', async () => {
  started.routes.set({ sandboxId: 'sbx-asleep', status: 'paused' });
  const { json } = await send({ port: started.port, host: formatHost('sbx-asleep') });
  expect(json.error).toBe('The sandbox is paused. To resume it, send POST /v1/sandboxes/sbx-asleep/resume to the API');
  started.routes.set({ sandboxId: 'sbx-asleep', status: 'terminated' });
  expect((await send({ port: started.port, host: formatHost('sbx-asleep') })).json.error).toBe(
    'The sandbox is not running',
  );
});

test('a sandbox without an address answers 502', async () => {
  started.routes.set({ sandboxId: 'sbx-nowhere', address: null });
  const reply = await send({ port: started.port, host: formatHost('sbx-nowhere') });
  expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_not_running']);
});

test('a port where nothing listens answers 502', async () => {
  const reply = await send({ port: started.port, host: formatHost('sbx-one', 1), method: 'POST', body: 'x' });
  expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_port_closed']);
});

test('an error of a HEAD request has no body', async () => {
  const reply = await send({ port: started.port, host: formatHost('sbx-nobody'), method: 'HEAD' });
  expect(reply.status).toBe(404);
  expect(reply.text).toBe('');
});

test('the base domain itself serves only its health check', async () => {
  const health = await send({ port: started.port, host: `${testDomain}:7081`, path: '/healthz' });
  expect([health.status, health.json]).toEqual([200, { status: 'ok' }]);
  const other = await send({ port: started.port, host: testDomain, path: '/' });
  expect([other.status, other.json.code]).toEqual([404, 'not_found']);
});

test('routes that cannot be looked up answer 503', async () => {
  started.routes.gate = Promise.reject(new Error('no database'));
  // The request that waits for it comes later.
  started.routes.gate.catch(() => undefined);
  const reply = await send({ port: started.port, host: formatHost('sbx-unlucky') });
  started.routes.gate = Promise.resolve();
  expect([reply.status, reply.json.code]).toEqual([503, 'temporarily_unavailable']);
  expect(reply.headers['retry-after']).toBe('1');
  expect(reply.text).not.toContain('database');
});

test('a sandbox that moved without an announcement is found by another lookup, and the request succeeds', async () => {
  const { routes, port } = started;
  const before = await startHttpUpstream((_request, response) => response.end('before'), '127.0.0.3');
  const after = await startHttpUpstream((_request, response) => response.end('after'), '127.0.0.4', {}, before.port);
  routes.set({ sandboxId: 'sbx-moved', address: '127.0.0.3', agentPort: before.port });
  const host = formatHost('sbx-moved');
  // The same with a longer time of trust, which a busy machine does not exceed before the next request.
  const trusting = await startGateway({ routes: new RouteCache(routes, routes, { shortTtlMs: 60_000 }) });
  try {
    for (const each of [port, trusting.port]) expect((await send({ port: each, host })).text).toBe('before');
    const lookedUpAtMs = performance.now();
    routes.setSilently({ sandboxId: 'sbx-moved', address: '127.0.0.4' });
    await before.stop();
    // A route that was looked up within that time is not doubted: otherwise each request to a closed port would cost a
    // query.
    expect((await send({ port: trusting.port, host })).json.code).toBe('sandbox_unreachable');
    await until(() => performance.now() - lookedUpAtMs > 1000);
    const looked = routes.lookups.length;
    expect((await send({ port, host, method: 'POST', body: 'not lost' })).text).toBe('after');
    expect(routes.lookups.length).toBe(looked + 1);
  } finally {
    await trusting.stop();
    await after.stop();
  }
});

test('used sandboxes are recorded together, each once', async () => {
  const own = await startGateway({ accessIntervalMs: 50 });
  own.routes.set({ sandboxId: 'sbx-used', address: web.address, agentPort: web.port });
  own.routes.set({ sandboxId: 'sbx-paused', status: 'paused' });
  try {
    await send({ port: own.port, host: formatHost('sbx-used') });
    await send({ port: own.port, host: formatHost('sbx-used') });
    await send({ port: own.port, host: formatHost('sbx-paused') });
    await until(() => own.accesses.length > 0);
    expect(own.accesses[0]).toEqual(['sbx-used']);
  } finally {
    await own.stop();
  }
  expect(own.accesses.flat()).not.toContain('sbx-paused');
});

test('requests are logged at debug level without their query', async () => {
  await send({
    port: started.port,
    host: formatHost('sbx-one'),
    path: '/files?signature=v1_secret',
    headers: { 'x-access-token': 'hidden' },
  });
  await until(() => started.log.some((line) => line.includes('"path":"/files"')));
  const line = started.log.find((entry) => entry.includes('"path":"/files"'))!;
  expect(JSON.parse(line)).toMatchObject({
    level: 20,
    sandboxId: 'sbx-one',
    method: 'GET',
    status: 200,
    completed: true,
  });
  expect(started.log.join('')).not.toMatch(/secret|hidden/);
});
