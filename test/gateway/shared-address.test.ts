import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import tls from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WebSocket, WebSocketServer } from 'ws';
import { type Reply, send, sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway, testDomain } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

/** One URL for all sandboxes: `E2b-Sandbox-Id` and `E2b-Sandbox-Port` name the sandbox and its port. */
let started: StartedGateway;
let agent: UpstreamServer;
let web: UpstreamServer;
const token = 'token-of-sbx-one';

beforeAll(async () => {
  started = await startGateway();
  agent = await startHttpUpstream((request, response) => {
    response.setHeader('set-cookie', 'a=1').setHeader('vary', 'Origin');
    response.end(JSON.stringify({ server: 'agent', url: request.url, headers: request.headers }));
  });
  const upstream = await startHttpUpstream((request, response) => {
    response.setHeader('set-cookie', 'w=1');
    response.end(JSON.stringify({ server: 'web', url: request.url, headers: request.headers }));
  });
  new WebSocketServer({ server: upstream.server }).on('connection', (socket, request) => {
    socket.send(JSON.stringify(request.headers));
  });
  web = upstream;
  const at = { address: '127.0.0.1', agentPort: agent.port };
  const ports = [
    { port: 3000, servicePort: web.port, protocol: 'TCP' as const, isProtected: false },
    { port: 3001, servicePort: web.port, protocol: 'TCP' as const, isProtected: true },
  ];
  started.routes.set({ ...at, sandboxId: 'sbx-one', secure: true, accessToken: token, ports });
  started.routes.set({ ...at, sandboxId: 'sbx-paused', status: 'paused' });
});

afterAll(async () => {
  await started.stop();
  await Promise.all([agent.stop(), web.stop()]);
});

interface Call {
  host?: string;
  id?: string | string[];
  port?: string | number | string[];
  path?: string;
  headers?: Record<string, string | string[]>;
}

function call({
  host = `localhost:${started.port}`,
  id = 'sbx-one',
  port = 49983,
  path = '/',
  headers,
}: Call): Promise<Reply> {
  const named = { 'e2b-sandbox-id': id, 'e2b-sandbox-port': typeof port === 'number' ? String(port) : port };
  return send({ port: started.port, host, path, headers: { ...named, ...headers } });
}

test.each([
  ['localhost', 'localhost'],
  ['localhost with a port', 'localhost:7081'],
  ['an IPv4 address', '127.0.0.1:7081'],
  ['an IPv6 address', '[::1]:7081'],
  ['the base domain', testDomain],
  ['the base domain with a port', `${testDomain.toUpperCase()}.:7081`],
  ['another name', 'gateway'],
])('at %s, the fields name the sandbox and its port', async (_what, host) => {
  const reply = await call({ host, port: agent.port, path: '/health?x=1' });
  expect(reply.json).toMatchObject({ server: 'agent', url: '/health?x=1', headers: { host } });
  expect((await call({ host, port: 3000 })).json).toMatchObject({ server: 'web', headers: { host } });
});

test('the agent gets the id and the token, and other servers get neither these nor the port', async () => {
  const secrets = { 'x-access-token': token, 'e2b-traffic-access-token': token };
  const seen = (await call({ port: agent.port, headers: secrets })).json.headers;
  expect(seen).toMatchObject({ 'e2b-sandbox-id': 'sbx-one', 'x-access-token': token });
  expect(Object.keys(seen)).not.toEqual(expect.arrayContaining(['e2b-sandbox-port']));
  expect(Object.keys(seen)).not.toEqual(expect.arrayContaining(['e2b-traffic-access-token']));
  for (const port of [3000, 3001]) {
    const reply = await call({ port, headers: secrets });
    expect(reply.json.server).toBe('web');
    expect(reply.text).not.toMatch(/e2b-|access-token|token-of/);
  }
});

test('access is checked as by host name, also by the name that E2B has for the token', async () => {
  expect((await call({ port: 3001 })).status).toBe(401);
  expect((await call({ port: web.port })).status).toBe(401);
  expect((await call({ port: web.port, headers: { 'x-access-token': token } })).status).toBe(200);
  expect((await call({ port: web.port, headers: { 'e2b-traffic-access-token': token } })).status).toBe(200);
  expect((await call({ port: web.port, headers: { 'e2b-traffic-access-token': 'wrong' } })).status).toBe(401);
  expect((await call({ port: web.port, headers: { 'e2b-traffic-access-token': [token, token] } })).status).toBe(401);
  const both = { 'x-access-token': 'wrong', 'e2b-traffic-access-token': token };
  expect((await call({ port: web.port, headers: both })).status).toBe(401);
  expect((await call({ id: 'sbx-paused' })).json.code).toBe('sandbox_not_running');
  expect((await call({ id: 'sbx-nobody' })).json.code).toBe('sandbox_not_found');
  expect((await call({ port: agent.port, path: '/platform/init' })).status).toBe(404);
});

test.each<[string, Call]>([
  ['no id', { id: [] }],
  ['no port', { port: [] }],
  ['two ids', { id: ['sbx-one', 'sbx-one'] }],
  ['two ports', { port: ['3000', '3000'] }],
  ['an empty id', { id: '' }],
  ['an empty port', { port: '' }],
  ['an id in upper case', { id: 'SBX-ONE' }],
  ['a list of ids', { id: 'sbx-one, sbx-one' }],
  ['an id of another form', { id: 'i1234567890' }],
  ['an id with a port', { id: '3000-sbx-one' }],
  ['an id with a domain', { id: `sbx-one.${testDomain}` }],
  ['an id with a path', { id: 'sbx-one/..' }],
  ['an id that is too long', { id: `sbx-${'a'.repeat(60)}` }],
  ['port 0', { port: 0 }],
  ['a port above 65535', { port: 65536 }],
  ['a port with a leading zero', { port: '03000' }],
  ['a negative port', { port: -1 }],
  ['a port with a space inside', { port: '30 00' }],
  ['a part of the id in the port', { id: 'one', port: '3000-sbx' }],
])('%s is refused and never looked up', async (_what, fields) => {
  const before = started.routes.lookups.length;
  const reply = await call(fields);
  expect([reply.status, reply.json.code]).toEqual([400, 'invalid_host']);
  expect(started.routes.lookups.length).toBe(before);
});

test('a port with a character outside ASCII is refused', async () => {
  const head = 'GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: sbx-one\r\nE2b-Sandbox-Port: 300\xb2\r\n\r\n';
  expect(await sendRaw(started.port, head)).toMatch(/^HTTP\/1\.1 400 /);
});

test('without these fields, the addresses stay as they were', async () => {
  const foreign = await send({ port: started.port, host: 'localhost' });
  expect([foreign.status, foreign.json.code]).toEqual([404, 'unknown_host']);
  const base = await send({ port: started.port, host: testDomain, path: '/healthz' });
  expect([base.status, base.json]).toEqual([200, { status: 'ok' }]);
});

test('the host name of a sandbox goes before the fields, which its server gets', async () => {
  started.routes.set({ sandboxId: 'sbx-other', address: '127.0.0.1', agentPort: agent.port });
  const reply = await call({ host: formatHost('sbx-other', web.port), id: 'sbx-one', port: 3001 });
  expect(reply.json).toMatchObject({
    server: 'web',
    headers: { 'e2b-sandbox-id': 'sbx-one', 'e2b-sandbox-port': '3001' },
  });
  const unknown = await call({ host: `x.${testDomain}` });
  expect([unknown.status, unknown.json.code]).toEqual([404, 'unknown_host']);
});

test('a reply sets no cookie for the address of all sandboxes, and caches learn what it depends on', async () => {
  for (const port of [agent.port, 3000]) {
    const { headers } = await call({ port });
    expect(headers['set-cookie']).toBeUndefined();
    expect(headers.vary).toContain('E2b-Sandbox-Id, E2b-Sandbox-Port');
  }
  expect((await send({ port: started.port, host: formatHost('sbx-one', 3000) })).headers['set-cookie']).toEqual([
    'w=1',
  ]);
});

test('a WebSocket reaches a port', async () => {
  const socket = new WebSocket(`ws://127.0.0.1:${started.port}/`, {
    headers: { 'E2b-Sandbox-Id': 'sbx-one', 'E2b-Sandbox-Port': '3000' },
  });
  const [message] = await once(socket, 'message');
  expect(String(message)).not.toContain('e2b-');
  socket.terminate();
});

test('a gateway of several requests on one connection serves each by its own fields', async () => {
  const head = (port: number | string, close: string) =>
    `GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: sbx-one\r\nE2b-Sandbox-Port: ${port}\r\n${close}\r\n`;
  const received = await sendRaw(
    started.port,
    head(3000, '') + head(agent.port, '') + head(3000, 'Connection: close\r\n'),
    /(?:server.*?){3}/s,
  );
  expect(received.match(/"server":"\w+"/g)).toEqual(['"server":"web"', '"server":"agent"', '"server":"web"']);
});

describe('over HTTP/2', () => {
  async function callHttp2(authority: string, fields: http2.OutgoingHttpHeaders, servername?: string) {
    const session = http2.connect(`http://${authority}`, {
      createConnection: () =>
        servername === undefined
          ? net.connect(started.port, '127.0.0.1')
          : tls.connect({
              port: started.port,
              host: '127.0.0.1',
              servername,
              ca: started.ca.certificatePem,
              ALPNProtocols: ['h2'],
            }),
    });
    try {
      const stream = session.request({ ':authority': authority, ...fields });
      const [headers] = await once(stream, 'response');
      return { status: headers[':status'], headers, text: await text(stream) };
    } finally {
      session.destroy();
    }
  }

  test('the fields name the sandbox and its port, with and without TLS', async () => {
    const fields = { 'e2b-sandbox-id': 'sbx-one', 'e2b-sandbox-port': '3000' };
    for (const [authority, servername] of [['localhost:7081'], [testDomain], [testDomain, testDomain]] as const) {
      const reply = await callHttp2(authority, fields, servername);
      expect(reply.status).toBe(200);
      expect(reply.headers['set-cookie']).toBeUndefined();
      expect(JSON.parse(reply.text)).toMatchObject({ server: 'web', headers: { host: authority } });
      expect(reply.text).not.toContain('e2b-');
    }
  });

  test('two ids are refused', async () => {
    const reply = await callHttp2('localhost', {
      'e2b-sandbox-id': ['sbx-one', 'sbx-one'],
      'e2b-sandbox-port': '3000',
    });
    expect([reply.status, JSON.parse(reply.text).code]).toEqual([400, 'invalid_host']);
  });
});

describe('the code interpreter at port 49999', () => {
  const interpreter = (options: Call = {}) => call({ port: 49999, path: '/execute?x=1', ...options });

  test('is the agent, below its own path, by fields and by host name', async () => {
    const expected = { server: 'agent', url: '/interpreter/execute?x=1' };
    expect((await interpreter()).json).toMatchObject(expected);
    const host = formatHost('sbx-one', 49999);
    const named = await send({ port: started.port, host, path: '/execute?x=1' });
    expect(named.json).toMatchObject(expected);
    expect((await interpreter({ path: '/' })).json.url).toBe('/interpreter/');
  });

  test('gets the access token by both names', async () => {
    const given = async (headers: Record<string, string>) =>
      (await interpreter({ headers })).json.headers['x-access-token'];
    expect(await given({})).toBeUndefined();
    expect(await given({ 'x-access-token': 'mine' })).toBe('mine');
    expect(await given({ 'e2b-traffic-access-token': 'theirs' })).toBe('theirs');
    expect(await given({ 'x-access-token': 'mine', 'e2b-traffic-access-token': 'theirs' })).toBe('mine');
    const reply = await call({ port: agent.port, headers: { 'e2b-traffic-access-token': 'theirs' } });
    expect(reply.text).not.toContain('theirs');
  });

  test.each(['/../platform/init', '/%2e%2e/platform/init', '/..%2fplatform', '/./../PLATFORM/x'])(
    'does not reach the paths of the platform by %s',
    async (path) => {
      expect((await interpreter({ path })).status).toBe(404);
    },
  );

  test('is an ordinary port where it is declared', async () => {
    const port = { port: 49999, servicePort: web.port, protocol: 'TCP' as const, isProtected: false };
    started.routes.set({ sandboxId: 'sbx-own', address: '127.0.0.1', agentPort: agent.port, ports: [port] });
    expect((await interpreter({ id: 'sbx-own' })).json).toMatchObject({ server: 'web', url: '/execute?x=1' });
  });

  test('is not public while the owner is disabled', async () => {
    started.routes.set({ sandboxId: 'sbx-stopped', address: '127.0.0.1', agentPort: agent.port, isLocked: true });
    expect((await interpreter({ id: 'sbx-stopped' })).json.code).toBe('owner_disabled');
  });
});

describe('a sandbox with public ports', () => {
  beforeAll(() => {
    const ports = [{ port: 3001, servicePort: web.port, protocol: 'TCP' as const, isProtected: true }];
    const secured = { secure: true, publicPorts: true, accessToken: token, ports };
    started.routes.set({ sandboxId: 'sbx-public', address: '127.0.0.1', agentPort: agent.port, ...secured });
  });

  test('serves undeclared ports to everyone', async () => {
    expect((await call({ id: 'sbx-public', port: web.port })).json.server).toBe('web');
    const host = formatHost('sbx-public', web.port);
    expect((await send({ port: started.port, host })).json.server).toBe('web');
  });

  test('still protects the ports that were declared so, and the agent checks its own', async () => {
    expect((await call({ id: 'sbx-public', port: 3001 })).status).toBe(401);
    for (const port of [agent.port, 49999]) {
      expect((await call({ id: 'sbx-public', port })).json.server).toBe('agent');
    }
  });
});
