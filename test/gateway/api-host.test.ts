import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import tls from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { readForwardedClient } from '../../domain/forwarded-client.ts';
import { issueLeaf, openLocalCa } from '../../gateway/tls/local-ca.ts';
import { flood } from '../support/flood.ts';
import { freePort } from '../support/free-port.ts';
import { until, untilStill } from '../support/until.ts';
import { RawConnection, type Reply, send } from './client.ts';
import { type StartedGateway, startGateway, testDomain } from './started-gateway.ts';
import { listening, startHttpUpstream, startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const apiHost = `api.${testDomain}`;
const keys = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
let listener: http.RequestListener;
let api: UpstreamServer;
let started: StartedGateway;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  api = await startHttpUpstream((request, response) => listener(request, response));
  started = await startWith(`http://127.0.0.1:${api.port}`);
});

afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

afterAll(async () => {
  await started.stop();
  await api.stop();
});

function startWith(url: string, { trustProxy = false, maxRequestsPerClient = 100 } = {}): Promise<StartedGateway> {
  return startGateway({ trustProxy, api: { url, clientAddressKeys: () => keys, maxRequestsPerClient } });
}

async function startAlso(...options: Parameters<typeof startWith>): Promise<StartedGateway> {
  const other = await startWith(...options);
  stops.push(() => other.stop());
  return other;
}

function call(options: Partial<Parameters<typeof send>[0]> = {}): Promise<Reply> {
  return send({ port: started.port, host: apiHost, ...options });
}

const echo: http.RequestListener = async (request, response) => {
  const body = await text(request);
  const { method, url, headers } = request;
  response.writeHead(201, { 'content-type': 'application/json', 'x-next-token': 'n', 'set-cookie': 'a=1' });
  response.end(JSON.stringify({ method, url, headers, body }));
};

test.each([apiHost, `API.${testDomain}.`, `${apiHost}:7081`])('requests for %s reach the API', async (host) => {
  listener = echo;
  const headers = {
    'x-api-key': 'e2b_00',
    authorization: 'Bearer b',
    cookie: 'session=1',
    'content-type': 'text/plain',
  };
  const reply = await call({ host, method: 'POST', path: '/sandboxes?limit=1', headers, body: 'the body' });
  expect(reply.status).toBe(201);
  expect(reply.headers['x-next-token']).toBe('n');
  expect(reply.json).toMatchObject({ method: 'POST', url: '/e2b/sandboxes?limit=1', body: 'the body' });
  expect(reply.json.headers).toMatchObject({
    host: `127.0.0.1:${api.port}`,
    'x-api-key': 'e2b_00',
    authorization: 'Bearer b',
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': host,
    'x-request-id': reply.headers['x-request-id'],
  });
});

test('cookies pass in neither direction, because names of sandboxes are beside this one', async () => {
  listener = echo;
  const reply = await call({ headers: { cookie: 'session=1' } });
  expect(reply.json.headers.cookie).toBeUndefined();
  expect(reply.headers['set-cookie']).toBeUndefined();
});

test("the API learns the client's address, signed, and a client cannot name another", async () => {
  listener = echo;
  const forged = `192.0.2.1 ${'A'.repeat(43)}`;
  const { headers } = (await call({ headers: { 'x-platform-client': forged } })).json;
  expect(readForwardedClient(headers['x-platform-client'], [keys[0]!])).toBe('127.0.0.1');
  expect(readForwardedClient(headers['x-platform-client'], [keys[1]!])).toBeNull();
});

test('behind a proxy it is the address that the proxy has seen', async () => {
  listener = echo;
  const behind = await startAlso(`http://127.0.0.1:${api.port}`, { trustProxy: true });
  const signedFor = async (forwarded: string) => {
    const { json } = await call({ port: behind.port, headers: { 'x-forwarded-for': forwarded } });
    return readForwardedClient(json.headers['x-platform-client'], keys);
  };
  expect(await signedFor('203.0.113.1, 198.51.100.7')).toBe('198.51.100.7');
  expect(await signedFor('2001:DB8::1')).toBe('2001:db8::1');
  expect(await signedFor('not an address')).toBe('127.0.0.1');
});

test('sandboxes get no such field', async () => {
  const sandbox = await startHttpUpstream(echo);
  stops.push(() => sandbox.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: sandbox.address, agentPort: sandbox.port });
  const reply = await send({
    port: started.port,
    host: `sbx-one.${testDomain}`,
    headers: { 'x-platform-client': 'forged' },
  });
  expect(reply.json.headers['x-platform-client']).toBeUndefined();
});

test('HTTP/2 clients reach it, with and without TLS', async () => {
  listener = echo;
  for (const secure of [false, true]) {
    const session = http2.connect(`${secure ? 'https' : 'http'}://${apiHost}`, {
      createConnection: () =>
        secure
          ? tls.connect({
              port: started.port,
              host: '127.0.0.1',
              servername: apiHost,
              ca: started.ca.certificatePem,
              ALPNProtocols: ['h2'],
            })
          : net.connect(started.port, '127.0.0.1'),
    });
    const replies = await Promise.all(
      [1, 2, 3].map(async (n) => {
        const stream = session.request({ ':method': 'POST', ':path': `/${n}` }, { endStream: false });
        stream.end(`body ${n}`);
        const [headers] = await once(stream, 'response');
        expect(headers[':status']).toBe(201);
        return JSON.parse(await text(stream));
      }),
    );
    expect(replies.map(({ url, body }) => [url, body])).toEqual([1, 2, 3].map((n) => [`/e2b/${n}`, `body ${n}`]));
    expect(replies[0].headers['x-forwarded-proto']).toBe(secure ? 'https' : 'http');
    session.destroy();
  }
});

test('connections to the API are used again', async () => {
  listener = (_request, response) => response.end('ok');
  const other = await startAlso(`http://127.0.0.1:${api.port}`);
  const before = api.accepted();
  for (let n = 0; n < 5; n++) expect((await call({ port: other.port })).text).toBe('ok');
  expect(api.accepted() - before).toBe(1);
});

test('an API behind TLS and a path is reached, if its certificate is valid', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'api-host-'));
  const ca = await openLocalCa(folder);
  const secure = await listening(https.createServer(await issueLeaf(ca, 'localhost'), echo), '127.0.0.1', 0);
  stops.push(async () => {
    await secure.stop();
    rmSync(folder, { recursive: true });
  });
  const other = await startAlso(`https://localhost:${secure.port}/platform/`);
  const refused = await call({ port: other.port });
  expect([refused.status, refused.json.code]).toEqual([502, 502]);
  const known = tls.getCACertificates('default');
  tls.setDefaultCACertificates([...known, ca.certificatePem]);
  try {
    const reply = await call({ port: other.port, method: 'POST', path: '/sandboxes', body: 'x'.repeat(300_000) });
    expect(reply.json).toMatchObject({ url: '/platform/e2b/sandboxes', headers: { host: `localhost:${secure.port}` } });
    expect(reply.json.body.length).toBe(300_000);
  } finally {
    tls.setDefaultCACertificates(known);
  }
});

test('an API that is away is 503, and one that breaks off is 502, in the form of its clients', async () => {
  const away = await startAlso(`http://127.0.0.1:${await freePort()}`);
  for (const method of ['GET', 'POST']) {
    const reply = await call({ port: away.port, method });
    expect([reply.status, reply.json]).toEqual([503, { code: 503, message: 'The API does not answer now' }]);
    expect(reply.headers).toMatchObject({ 'retry-after': '1', 'content-type': 'application/json' });
  }
  for (const [answer, message] of [
    ['HTTP/1.1 x\r\n\r\n', 'The API sent no valid reply'],
    ['', 'The API sent no reply'],
  ]) {
    const broken = answer
      ? await startScriptedUpstream(answer)
      : await listening(
          net.createServer((socket) => socket.once('data', () => socket.end())),
          '127.0.0.1',
          0,
        );
    stops.push(() => broken.stop());
    const gateway = await startAlso(`http://127.0.0.1:${broken.port}`);
    const reply = await call({ port: gateway.port, method: 'POST', body: 'x' });
    expect([reply.status, reply.json]).toEqual([502, { code: 502, message }]);
  }
});

test('one client has a share of the connections to the API', async () => {
  const held: http.ServerResponse[] = [];
  listener = (_request, response) => void held.push(response);
  const limited = await startAlso(`http://127.0.0.1:${api.port}`, { maxRequestsPerClient: 2 });
  const waiting = [1, 2].map(() => call({ port: limited.port }));
  await until(() => held.length === 2);
  const refused = await call({ port: limited.port });
  expect([refused.status, refused.json]).toEqual([429, { code: 429, message: 'Too many requests from this address' }]);
  for (const response of held) response.end('done');
  expect((await Promise.all(waiting)).map((reply) => reply.text)).toEqual(['done', 'done']);
  listener = (_request, response) => response.end('free');
  expect((await call({ port: limited.port })).text).toBe('free');
});

test('a client that leaves ends its request to the API', async () => {
  let closed = false;
  let arrived = false;
  listener = (_request, response) => {
    arrived = true;
    response.once('close', () => {
      closed = true;
    });
  };
  const client = new RawConnection(started.port);
  client.write(`GET / HTTP/1.1\r\nHost: ${apiHost}\r\n\r\n`);
  await until(() => arrived);
  client.destroy();
  await until(() => closed);
});

test('a client that does not read stops the reply, and an API that does not read stops the body', async () => {
  let sent = 0;
  let unread: http.IncomingMessage | undefined;
  listener = (request, response) => {
    if (request.method === 'POST') {
      unread = request;
      return;
    }
    const piece = Buffer.alloc(1024);
    flood(response, piece, () => {
      sent += piece.length;
    });
  };
  const slow = new RawConnection(started.port);
  slow.socket.pause();
  slow.write(`GET / HTTP/1.1\r\nHost: ${apiHost}\r\n\r\n`);
  await until(() => sent > 0);
  await untilStill(() => sent);
  expect(sent).toBeLessThan(64 * 1024 * 1024);
  slow.destroy();

  const sender = new RawConnection(started.port);
  let written = 0;
  sender.write(`POST / HTTP/1.1\r\nHost: ${apiHost}\r\nContent-Length: 1000000000\r\n\r\n`);
  const piece = Buffer.alloc(1024);
  flood(sender.socket, piece, () => {
    written += piece.length;
  });
  await until(() => unread !== undefined);
  await untilStill(() => written);
  expect(written).toBeLessThan(64 * 1024 * 1024);
  sender.destroy();
});

test.each([
  [
    'a WebSocket',
    'GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
    201,
  ],
  ['a target that is no path', 'OPTIONS * HTTP/1.1\r\n', 400],
  ['a CONNECT', `CONNECT ${apiHost} HTTP/1.1\r\n`, 405],
  ['two hosts', `GET / HTTP/1.1\r\nHost: ${testDomain}\r\n`, 400],
])('%s gets an ordinary reply', async (_what, head, status) => {
  listener = echo;
  const connection = new RawConnection(started.port);
  connection.write(`${head}Host: ${apiHost}\r\n\r\n`);
  expect(await connection.expect(/^HTTP\/1\.1 \d+/)).toMatch(new RegExp(`^HTTP/1.1 ${status}`));
  connection.destroy();
});

test('a gateway without an API has no such host', async () => {
  const without = await startGateway();
  stops.push(() => without.stop());
  const reply = await call({ port: without.port });
  expect([reply.status, reply.json.code]).toEqual([404, 'unknown_host']);
});
