import { once } from 'node:events';
import http from 'node:http';
import http2 from 'node:http2';
import { text } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { WebSocket } from 'ws';
import { sealSession } from '../../gateway/pages/page-session.ts';
import { until } from '../support/until.ts';
import { type Reply, send } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const id = 'sbx-one';
const token = 'token-of-sbx-one';
let started: StartedGateway;
let agent: UpstreamServer;
/** The requests that reached the sandbox. */
let seen: { url: string; method: string; headers: http.IncomingHttpHeaders; body: string }[];
const stops: (() => Promise<void> | void)[] = [];

beforeAll(async () => {
  started = await startGateway();
  agent = await startHttpUpstream((request, response) => {
    let body = '';
    request.on('data', (bytes) => {
      body += bytes;
    });
    request.on('end', () => {
      seen.push({ url: request.url!, method: request.method!, headers: request.headers, body });
      response.setHeader('content-type', 'application/json');
      if (request.url?.endsWith('/Start')) response.write('begun');
      else response.end('{}');
    });
  });
});
beforeEach(() => {
  seen = [];
  const ports = [{ port: 3000, servicePort: agent.port, protocol: 'TCP' as const, isProtected: false }];
  const place = { address: agent.address, agentPort: agent.port, status: 'running', isLocked: false };
  started.routes.set({ sandboxId: id, secure: true, accessToken: token, ports: [], ...place });
  // The same server as a port of another sandbox, like programs in a sandbox.
  started.routes.set({ sandboxId: 'sbx-two', secure: true, accessToken: 'x', ...place, agentPort: 1, ports });
});
afterEach(() => Promise.all(stops.splice(0).map((stop) => stop())));
afterAll(async () => {
  await started.stop();
  await agent.stop();
});

/** Fields that browsers send for a script of the page. */
const own = () => ({
  origin: `http://${formatHost(id)}:${started.port}`,
  'sec-fetch-site': 'same-origin',
  'sec-fetch-dest': 'empty',
});
const json = { 'content-type': 'application/json' };

function call(
  path: string,
  options: { method?: string; headers?: http.OutgoingHttpHeaders; host?: string; body?: string } = {},
): Promise<Reply> {
  return send({ port: started.port, host: `${formatHost(id)}:${started.port}`, path, ...options });
}

async function openSession(page = 'terminal'): Promise<string> {
  const reply = await call(`/${page}/session`, { method: 'POST', headers: { ...own(), 'x-access-token': token } });
  expect(reply.status).toBe(204);
  return reply.headers['set-cookie']![0]!.split(';', 1)[0]!;
}

const listAssets = (html: string) => [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, url]) => url!);

test.each(['terminal', 'files'])('/%s loads only its own assets, and its policy allows no others', async (page) => {
  const reply = await call(`/${page}`);
  expect(reply.status).toBe(200);
  expect(reply.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cache-control': 'no-store',
  });
  const own = `${formatHost(id)}:${started.port}/${page}`;
  const policy = reply.headers['content-security-policy'] as string;
  const directives = Object.fromEntries(policy.split('; ').map((each) => [each.split(' ', 1)[0], each]));
  expect(directives).toMatchObject({
    'default-src': "default-src 'none'",
    'script-src': `script-src ${own}/assets/`,
    'connect-src': `connect-src ${own}/session ${own}/agent/`,
    'frame-ancestors': "frame-ancestors 'none'",
    'base-uri': "base-uri 'none'",
    'form-action': "form-action 'none'",
    'require-trusted-types-for': "require-trusted-types-for 'script'",
  });
  // The page has no inline script, and no address of another server.
  expect(reply.text).not.toMatch(/<script(?![^>]* src="\/)|https?:/);
  const assets = listAssets(reply.text);
  expect(assets).toHaveLength(2);
  for (const url of assets) {
    const asset = await call(url);
    expect([asset.status, asset.headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable']);
    expect(asset.headers['content-type']).toMatch(url.endsWith('.js') ? /^text\/javascript/ : /^text\/css/);
    expect((await call(url, { method: 'HEAD' })).headers['content-length']).toBe(String(asset.body.length));
    const packed = await call(url, { headers: { 'accept-encoding': 'gzip, deflate, br' } });
    expect([packed.headers['content-encoding'], packed.headers.vary]).toEqual(['br', 'Accept-Encoding']);
    expect(brotliDecompressSync(packed.body).equals(asset.body)).toBe(true);
    const zipped = await call(url, { headers: { 'accept-encoding': 'gzip' } });
    expect(gunzipSync(zipped.body).equals(asset.body)).toBe(true);
  }
  expect((await call(`/${page}/assets/../main.ts`)).status).toBe(404);
  expect((await call(`/${page}`, { method: 'POST' })).status).toBe(405);
  expect(seen).toEqual([]);
});

test('the first view of a page takes few bytes over the wire, and the editor is loaded later', async () => {
  const wire = async (page: string) => {
    const { text: document } = await call(`/${page}`);
    const sizes = listAssets(document).map(async (url) => {
      return (await call(url, { headers: { 'accept-encoding': 'gzip' } })).body.length;
    });
    return document.length + (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  };
  expect(await wire('files')).toBeLessThan(12_000);
  expect(await wire('terminal')).toBeLessThan(130_000);
});

describe('at / of its own name', () => {
  const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

  test('a person gets a page with the state and the links, and a program the reply of the agent', async () => {
    const page = await call('/?from=mail', { headers: browser });
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.text).toContain('The sandbox is running');
    expect(listAssets(page.text)).toEqual(['/terminal', '/files']);
    expect(page.text).toContain('<a href="http://api.localhost/docs/agent">');
    expect(page.text).not.toMatch(/<script|token-of|http:\/\/(?!api\.localhost)/);
    expect(page.headers).toMatchObject({
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; style-src 'sha256-[\w+/]+=*'; img-src data:; /,
      ),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    expect(seen).toEqual([]);
    for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
      expect((await call('/', { headers })).text).toBe('{}');
    }
    expect((await call('/', { method: 'POST', headers: browser, body: '{}' })).text).toBe('{}');
    expect(seen).toHaveLength(4);
  });

  test.each([
    ['paused', /The sandbox is paused[\s\S]*sandbox-platform resume sbx-one/],
    ['terminated', /does not run any more[\s\S]*terminated/],
    ['starting', /does not run now[\s\S]*starting/],
  ])('a sandbox that is %s shows that, without links that do not work', async (status, shown) => {
    started.routes.set({ sandboxId: id as never, status });
    const page = await call('/', { headers: browser });
    expect([page.status, page.text]).toEqual([502, expect.stringMatching(shown)]);
    expect(listAssets(page.text)).toEqual([]);
    const program = await call('/');
    expect([program.status, program.json.code]).toEqual([502, 'sandbox_not_running']);
  });

  test('a refusal is a page for a person, on the names of ports too, and JSON for a program', async () => {
    started.routes.set({ sandboxId: 'sbx-two' as never, status: 'paused' });
    for (const [host, path, status, title] of [
      [formatHost('sbx-two', 3000), '/app', 502, 'The sandbox is paused'],
      [formatHost('sbx-none'), '/', 404, 'No such sandbox'],
      [formatHost(id), '/files/none', 404, 'Not found'],
    ] as const) {
      const page = await call(path, { host, headers: browser });
      expect([page.status, page.headers['content-type']]).toEqual([status, 'text/html; charset=utf-8']);
      expect(page.text).toContain(`<h1>${title}</h1>`);
      expect(page.text).toContain(`<code>${page.headers['x-request-id']}</code>`);
      expect(page.headers['content-security-policy']).toContain("default-src 'none'");
      const program = await call(path, { host });
      expect([program.status, program.headers['content-type']]).toEqual([status, 'application/json']);
      expect((await call(path, { host, headers: browser, method: 'HEAD' })).text).toBe('');
    }
  });

  test('over HTTP/2 it is the same page', async () => {
    const session = http2.connect(`https://127.0.0.1:${started.port}`, {
      servername: formatHost(id),
      ca: started.ca.certificatePem,
    });
    stops.push(() => session.close());
    const stream = session.request({ ':authority': formatHost(id), ':path': '/', ...browser });
    const [headers] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders];
    expect([headers[':status'], headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(await text(stream)).toContain('The sandbox is running');
  });
});

test('the token is exchanged for a cookie that opens the agent and is not sent to it', async () => {
  const cookie = await openSession();
  const headers = {
    ...own(),
    ...json,
    cookie: `a=1; ${cookie}; b=2`,
    authorization: 'Bearer x',
    'x-access-token': 'wrong',
  };
  const reply = await call('/terminal/agent/Process/Update', { method: 'POST', headers, body: '{"a":1}' });
  expect([reply.status, reply.text]).toEqual([200, '{}']);
  expect(seen).toMatchObject([{ url: '/sandboxagent.Process/Update', method: 'POST', body: '{"a":1}' }]);
  const { headers: passed } = seen[0]!;
  expect(passed['x-access-token']).toBe(token);
  expect(Object.keys(passed)).not.toEqual(expect.arrayContaining(['cookie']));
  for (const name of ['cookie', 'origin', 'authorization', 'sec-fetch-site']) expect(passed[name]).toBeUndefined();
  expect((await call('/terminal/session', { headers: { ...own(), cookie } })).status).toBe(204);
});

test('a wrong token opens no session', async () => {
  for (const given of [{}, { 'x-access-token': `${token}x` }, { 'x-access-token': '' }]) {
    const reply = await call('/terminal/session', { method: 'POST', headers: { ...own(), ...given } });
    expect([reply.status, reply.json.code, reply.headers['set-cookie']]).toEqual([401, 'unauthenticated', undefined]);
  }
});

test.each([
  ['no cookie', () => undefined],
  ['that of another sandbox', () => sealSession('sbx-two' as never, 'x', Date.now() / 1000 + 60)],
  ['an expired one', () => sealSession(id as never, token, Math.floor(Date.now() / 1000) - 1)],
  ['the token', () => token],
])('with %s no request reaches the agent', async (_, value) => {
  const cookie = value() === undefined ? {} : { cookie: `__Host-sandbox-session=${value()}` };
  for (const path of ['/terminal/agent/Process/Start', '/files/agent/Filesystem/Remove']) {
    const reply = await call(path, { method: 'POST', headers: { ...own(), ...json, ...cookie }, body: '{}' });
    expect([reply.status, reply.json.code]).toEqual([401, 'unauthenticated']);
  }
  expect(seen).toEqual([]);
});

test.each<[string, () => Record<string, string>]>([
  [
    'the name of a port',
    () => ({ origin: `http://${formatHost(id, 3000)}:${started.port}`, 'sec-fetch-site': 'same-site' }),
  ],
  ['the name of a port that lies about its site', () => ({ origin: `http://${formatHost(id, 3000)}:${started.port}` })],
  [
    'another sandbox',
    () => ({ origin: `http://${formatHost('sbx-two')}:${started.port}`, 'sec-fetch-site': 'same-site' }),
  ],
  ['another port of the machine', () => ({ origin: `http://${formatHost(id)}:1` })],
  ['another site', () => ({ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' })],
  ['an origin of its own', () => ({ origin: 'null' })],
  ['a document', () => ({ 'sec-fetch-dest': 'document' })],
  ['an image', () => ({ 'sec-fetch-dest': 'image' })],
  ['a script element', () => ({ 'sec-fetch-dest': 'script' })],
  ['the address bar of a browser', () => ({ 'sec-fetch-site': 'none' })],
])('a request by %s is refused, with the cookie too', async (_, fields) => {
  const cookie = await openSession();
  const headers = { ...own(), ...json, cookie, 'x-access-token': token, ...fields() };
  for (const path of ['/terminal/session', '/terminal/agent/Process/Start', '/files/agent/upload']) {
    const reply = await call(path, { method: 'POST', headers, body: '{}' });
    expect([reply.status, reply.json.code]).toEqual([403, 'cross_origin']);
  }
  if (fields().origin === undefined) {
    const { origin: _origin, ...reading } = headers;
    const reply = await call('/files/agent/download/%2Fetc%2Fpasswd', { headers: reading });
    expect(reply.status).toBe(403);
  }
  expect(seen).toEqual([]);
});

test('a request without Origin may read only, and one without Sec-Fetch-Site nothing', async () => {
  const cookie = await openSession('files');
  const { origin, ...rest } = own();
  const download = '/files/agent/download/%2Froot%2Fa.txt';
  expect((await call(download, { headers: { ...rest, cookie } })).status).toBe(200);
  expect(seen.map(({ url }) => url)).toEqual(['/download/%2Froot%2Fa.txt']);
  expect((await call('/files/agent/Filesystem/Stat', { method: 'POST', headers: { ...rest, cookie } })).status).toBe(
    403,
  );
  expect((await call(download, { headers: { origin, 'sec-fetch-dest': 'empty', cookie } })).status).toBe(403);
});

test('the cookie gives access only to the pages, and never reaches a program in a sandbox', async () => {
  const cookie = await openSession();
  const headers = { ...own(), ...json, cookie: `${cookie}; mine=1` };
  await call('/sandboxagent.Process/Update', { method: 'POST', headers, body: '{}' });
  await call('/%74erminal/agent/Process/Update', { method: 'POST', headers, body: '{}' });
  await call('/terminal', { host: formatHost('sbx-two', 3000), headers });
  expect(seen.map(({ url }) => url)).toEqual([
    '/sandboxagent.Process/Update',
    '/%74erminal/agent/Process/Update',
    '/terminal',
  ]);
  for (const { headers: passed } of seen) {
    expect(passed.cookie).toBe('mine=1');
    expect(passed['x-access-token']).toBeUndefined();
  }
  // The agent's port in the host name leads to the agent, which has no pages.
  await call('/terminal', { host: formatHost(id, agent.port), headers });
  expect(seen.at(-1)!.headers.cookie).toBe('mine=1');
});

test('pages can call only the procedures that they need', async () => {
  const cookie = await openSession();
  const headers = { ...own(), ...json, cookie };
  for (const path of [
    '/terminal/agent/Filesystem/Remove',
    '/terminal/agent/upload',
    '/files/agent/Process/Start',
    '/files/agent/platform/init',
    '/files/agent/download/../platform/exec',
    '/files/agent/download/%2e%2e/platform/exec',
    '/terminal/agent/Process/Start/../../x',
    '/terminal/anything',
  ]) {
    for (const method of ['GET', 'POST']) {
      const reply = await call(path, { method, headers });
      expect([path, method, [404, 405].includes(reply.status)]).toEqual([path, method, true]);
    }
  }
  expect((await call('/terminal/agent/Process/Update', { headers })).status).toBe(405);
  expect(seen).toEqual([]);
});

test('a session gives no access to WebSockets or gRPC', async () => {
  const cookie = await openSession();
  const socket = new WebSocket(`ws://127.0.0.1:${started.port}/terminal/agent/Process/Start`, {
    headers: { ...own(), host: formatHost(id), cookie },
  });
  const status = await new Promise((resolve) => {
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode));
    socket.on('error', () => undefined);
  });
  expect(status).toBe(404);
  expect(seen).toEqual([]);
});

test('over HTTP/2 with TLS the pages work the same, and gRPC gets a reply like any other', async () => {
  const authority = `${formatHost(id)}:${started.port}`;
  const session = http2.connect(`https://127.0.0.1:${started.port}`, {
    servername: formatHost(id),
    ca: started.ca.certificatePem,
  });
  session.on('error', () => undefined);
  stops.push(() => session.close());
  const ask = (headers: http2.OutgoingHttpHeaders, body = '') =>
    new Promise<http2.IncomingHttpHeaders>((resolve, reject) => {
      const stream = session.request({ ':authority': authority, ...headers }, { endStream: body === '' });
      stream.on('error', reject);
      stream.on('response', (received) => {
        stream.resume();
        stream.once('end', () => resolve(received));
      });
      if (body !== '') stream.end(body);
    });
  const secureOwn = { ...own(), origin: `https://${authority}` };
  expect((await ask({ ':path': '/terminal' }))[':status']).toBe(200);
  const opened = await ask({ ':path': '/terminal/session', ':method': 'POST', ...secureOwn, 'x-access-token': token });
  expect(opened[':status']).toBe(204);
  const cookie = (opened['set-cookie'] as string[])[0]!.split(';', 1)[0]!;
  const grpc = { 'content-type': 'application/grpc', te: 'trailers' };
  const reply = await ask(
    { ':path': '/terminal/agent/Process/Update', ':method': 'POST', ...secureOwn, ...grpc, cookie },
    'x',
  );
  expect([reply[':status'], reply['content-security-policy']]).toEqual([200, expect.stringContaining('sandbox')]);
});

test('replies of a hostile agent have no cookies, redirects, content types or early hints', async () => {
  const hostile = await startScriptedUpstream(
    'HTTP/1.1 103 Early Hints\r\nLink: <https://evil.example/x.js>; rel=preload; as=script\r\n\r\n' +
      'HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\n' +
      'Clear-Site-Data: "*"\r\nRefresh: 0;url=https://evil.example\r\nLink: </x>; rel=preload\r\nService-Worker-Allowed: /\r\n' +
      'Access-Control-Allow-Origin: *\r\nContent-Security-Policy: default-src *\r\nContent-Disposition: inline; filename=x.html\r\n' +
      'WWW-Authenticate: Basic\r\nContent-Length: 15\r\n\r\n<script></script>'.slice(0, -2),
  );
  stops.push(() => hostile.stop());
  started.routes.set({ sandboxId: id as never, agentPort: hostile.port, address: hostile.address });
  const cookie = await openSession('files');
  const { origin: _, ...reading } = own();
  let informed = 0;
  const reply = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const request = http.get({
      port: started.port,
      path: '/files/agent/download/x.html',
      headers: { ...reading, cookie, host: formatHost(id) },
      agent: false,
    });
    request.on('information', () => informed++);
    request.on('response', resolve).on('error', reject);
  });
  reply.resume();
  expect(informed).toBe(0);
  const names = Object.keys(reply.headers).filter(
    (name) => !['connection', 'keep-alive', 'date', 'x-request-id'].includes(name),
  );
  expect(names.sort()).toEqual([
    ...['cache-control', 'content-disposition', 'content-length', 'content-security-policy', 'content-type'],
    ...['cross-origin-resource-policy', 'x-content-type-options'],
  ]);
  expect(reply.headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  });
});

test('replies of the agent have no origin in a browser, and cannot be loaded as workers', async () => {
  const document = await call('/anything', { headers: { 'sec-fetch-dest': 'document' } });
  expect(document.headers['content-security-policy']).toBe('sandbox');
  expect((await call('/sw.js', { headers: { 'sec-fetch-dest': 'serviceworker' } })).status).toBe(404);
  // Clients and scripts get the unchanged reply.
  for (const headers of [{}, { 'sec-fetch-dest': 'empty' }]) {
    expect((await call('/anything', { headers })).headers['content-security-policy']).toBeUndefined();
  }
  expect(seen.map(({ url }) => url)).toEqual(['/anything', '/anything', '/anything']);
});

/** Opens a stream of the agent that stays open, like that of a shell. */
async function openStream(cookie: string): Promise<{ isClosed: boolean }> {
  const state = { isClosed: false };
  const request = http.request({
    port: started.port,
    path: '/terminal/agent/Process/Start',
    method: 'POST',
    headers: { ...own(), ...json, cookie, host: `${formatHost(id)}:${started.port}` },
    agent: false,
  });
  request.end('{}');
  request.on('error', () => undefined);
  const response = await new Promise<http.IncomingMessage>((resolve) => request.once('response', resolve));
  response.on('error', () => undefined);
  response.once('close', () => {
    state.isClosed = true;
  });
  response.resume();
  stops.push(() => void request.destroy());
  return state;
}

test.each([
  ['a pause', { status: 'paused' }, 502, 'sandbox_not_running'],
  ['the disabling of the owner', { isLocked: true }, 403, 'owner_disabled'],
])(
  'with %s the streams of pages end, the page shows the reason, and works again afterwards',
  async (_, change, status, code) => {
    const cookie = await openSession();
    const stream = await openStream(cookie);
    started.routes.set({ sandboxId: id as never, ...change });
    await until(() => stream.isClosed);
    const reply = await call('/terminal/session', { headers: { ...own(), cookie } });
    expect([reply.status, reply.json.code]).toEqual([status, code]);
    const page = await call('/terminal');
    expect([page.status, page.headers['content-type']]).toEqual([
      code === 'owner_disabled' ? 200 : 502,
      'text/html; charset=utf-8',
    ]);
    started.routes.set({ sandboxId: id as never, status: 'running', isLocked: false });
    expect((await call('/terminal/session', { headers: { ...own(), cookie } })).status).toBe(204);
  },
);

test('a stream ends with its session', async () => {
  // Late enough that a busy machine has opened the stream before.
  const endsAt = Math.floor(Date.now() / 1000) + 7;
  const cookie = `__Host-sandbox-session=${sealSession(id as never, token, endsAt)}`;
  const stream = await openStream(cookie);
  expect(stream.isClosed).toBe(false);
  await until(() => stream.isClosed);
  expect(Date.now()).toBeGreaterThanOrEqual(endsAt * 1000 - 20);
  expect((await call('/terminal/session', { headers: { ...own(), cookie } })).status).toBe(401);
});

test('a sandbox without a token needs no session, and still answers only its own page', async () => {
  started.routes.set({ sandboxId: id as never, secure: false });
  const headers = { ...own(), ...json };
  expect((await call('/terminal/agent/Process/Update', { method: 'POST', headers, body: '{}' })).status).toBe(200);
  expect(seen[0]!.headers['x-access-token']).toBeUndefined();
  const foreign = { ...headers, 'sec-fetch-site': 'cross-site' };
  expect((await call('/terminal/agent/Process/Update', { method: 'POST', headers: foreign })).status).toBe(403);
});

test('no log line has a token or a session', async () => {
  const cookie = await openSession();
  const { length } = started.log;
  await call('/terminal/session', { headers: { ...own(), cookie } });
  await until(() => started.log.slice(length).some((line) => line.includes('/terminal/session')));
  const log = started.log.join('');
  expect(log).not.toContain(token);
  expect(log).not.toContain(cookie.split('=')[1]);
});
