import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { flood } from '../support/flood.ts';
import { until, untilStill } from '../support/until.ts';
import { RawConnection, type Reply, send, sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, startRawUpstream, startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
let started: StartedGateway;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  started = await startGateway();
});

afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

afterAll(() => started.stop());

/** Uses this server as the sandbox's agent. */
function use<U extends UpstreamServer>(upstream: U): U {
  stops.push(() => upstream.stop());
  started.routes.set({
    sandboxId: 'sbx-one',
    status: 'running',
    address: upstream.address,
    agentPort: upstream.port,
  });
  return upstream;
}

async function useHttp(listener: http.RequestListener, options: http.ServerOptions = {}) {
  return use(await startHttpUpstream(listener, '127.0.0.1', options));
}

function call(options: Partial<Parameters<typeof send>[0]> = {}): Promise<Reply> {
  return send({ port: started.port, host: sandboxHost, ...options });
}

test('headers, status and reason are forwarded; connection-level headers are not', async () => {
  let seen: string[] = [];
  await useHttp((request, response) => {
    seen = request.rawHeaders;
    response.writeHead(418, 'Short And Stout', [
      ['X-Answer', '1'],
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['Connection', 'X-Private'],
      ['X-Private', 'y'],
    ]);
    response.end('tea');
  });
  const answer = await sendRaw(
    started.port,
    `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\nX-Custom: Value\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\n` +
      'Proxy-Authorization: Basic x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n',
    /tea/,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 418 Short And Stout\r\n/);
  expect(answer).toMatch(/\r\nX-Answer: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n/);
  expect(answer).not.toContain('X-Private');
  const names = seen.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  expect(seen).toEqual(expect.arrayContaining(['X-Custom', 'Value']));
  for (const gone of ['x-hop', 'keep-alive', 'te', 'proxy-authorization', 'upgrade', 'http2-settings', 'connection']) {
    expect(names).not.toContain(gone);
  }
});

test('a server can set cookies for its own host, and not for the domain above all sandboxes', async () => {
  const own = [
    'own=1; Path=/',
    `named=1; Domain=${sandboxHost}`,
    `dotted=1; domain = .${sandboxHost.toUpperCase()}`,
    'empty=1; Domain=',
  ];
  const foreign = ['sandbox.localhost', '.sandbox.localhost', 'localhost', 'sbx-two.sandbox.localhost'];
  await useHttp((_request, response) => {
    response.writeHead(200, {
      'Set-Cookie': [
        ...own,
        ...foreign.map((domain) => `a=1; Path=/; DOMAIN= ${domain} ; Secure`),
        `b=1; Domain=${sandboxHost}; Domain=localhost`,
      ],
    });
    response.end();
  });
  expect((await call()).headers['set-cookie']).toEqual(own);
});

test('the client’s forwarding fields are replaced, and the platform token is never forwarded', async () => {
  let seen: http.IncomingHttpHeaders = {};
  await useHttp((request, response) => {
    seen = request.headers;
    response.end();
  });
  await call({
    headers: {
      'x-forwarded-for': '6.6.6.6',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil',
      'x-real-ip': '6.6.6.6',
      forwarded: 'for=6.6.6.6',
      'x-platform-token': 'stolen',
      x_platform_token: 'stolen',
      'X-PLATFORM_token': 'stolen',
      'x-access-token': 'mine',
      'x-request-id': 'req-1',
    },
  });
  expect(seen).toMatchObject({
    host: sandboxHost,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': sandboxHost,
    'x-access-token': 'mine',
    'x-request-id': 'req-1',
  });
  expect(JSON.stringify(seen)).not.toMatch(/6\.6\.6\.6|evil|stolen/);
});

test('the forwarding fields of a trusted proxy are kept and extended', async () => {
  const trusting = await startGateway({ trustProxy: true });
  stops.push(() => trusting.stop());
  let seen: http.IncomingHttpHeaders = {};
  const upstream = await useHttp((request, response) => {
    seen = request.headers;
    response.end();
  });
  trusting.routes.set({ sandboxId: 'sbx-one', address: upstream.address, agentPort: upstream.port });
  const headers = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };
  await call({ port: trusting.port, headers });
  expect(seen['x-forwarded-for']).toBe('203.0.113.9, 127.0.0.1');
  expect(seen['x-forwarded-proto']).toBe('https');
});

test('bodies with a length and in chunks arrive completely, with the same framing', async () => {
  const body = randomBytes(3_000_000);
  await useHttp(async (request, response) => {
    const received = await buffer(request);
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    response.end(JSON.stringify({ length, coding, equal: received.equals(body) }));
  });
  const whole = await call({ method: 'POST', body, headers: { 'content-length': body.length } });
  expect(whole.json).toEqual({ length: '3000000', equal: true });
  const chunked = await call({ method: 'PUT', body, headers: { 'transfer-encoding': 'chunked' } });
  expect(chunked.json).toEqual({ coding: 'chunked', equal: true });
});

test.each([
  ['with a length', (bytes: Buffer) => ({ 'content-length': bytes.length })],
  ['in chunks', () => ({ 'transfer-encoding': 'chunked' })],
  ['until the connection closes', () => ({ connection: 'close' })],
])('a response %s of any size arrives completely', async (_how, framing) => {
  const bodies = [0, 1, 100, 16_384, 16_385, 200_000, 5_000_000].map((size) => randomBytes(size));
  await useHttp((request, response) => {
    const bytes = bodies[Number(request.url!.slice(1))]!;
    if (Object.hasOwn(framing(bytes), 'connection')) response.removeHeader('transfer-encoding');
    response.writeHead(200, framing(bytes) as http.OutgoingHttpHeaders);
    response.end(bytes);
  });
  const agent = new http.Agent({ keepAlive: true });
  for (const [index, body] of bodies.entries()) {
    const reply = await call({ path: `/${index}`, agent });
    expect(reply.body.equals(body)).toBe(true);
  }
  agent.destroy();
});

test('small and big pieces of many concurrent responses never mix', async () => {
  const pieces = (seed: number) =>
    [10, 300_000, 5, 20_000, 700_000].map((size, i) => Buffer.alloc(size, `${seed}.${i};`));
  await useHttp(async (request, response) => {
    response.writeHead(200);
    for (const piece of pieces(Number(request.url!.slice(1)))) {
      response.write(piece);
      await new Promise(setImmediate);
    }
    response.end();
  });
  const agent = new http.Agent({ keepAlive: true });
  for (let round = 0; round < 4; round++) {
    const replies = await Promise.all(Array.from({ length: 12 }, (_, i) => call({ path: `/${i}`, agent })));
    for (const [i, reply] of replies.entries()) expect(reply.body.equals(Buffer.concat(pieces(i)))).toBe(true);
  }
  agent.destroy();
});

test('a response of odd chunks, sent in odd pieces, arrives as one body with its trailers', async () => {
  const parts = Array.from({ length: 300 }, (_, i) => 'x'.repeat((i * 37) % 501).concat(String(i)));
  const chunks = parts.map((part) => `${part.length.toString(16).toUpperCase()};ext="a"\r\n${part}\r\n`).join('');
  const answer = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n${chunks}0\r\nX-Sum: 42\r\nSet-Cookie: a=b\r\nX-Platform-Token: t\r\n\r\n`;
  use(
    await startRawUpstream((socket) => {
      socket.once('data', async () => {
        for (let at = 0, size = 1; at < answer.length; at += size, size = (size * 7 + 3) % 1013) {
          socket.write(answer.slice(at, at + size));
          await new Promise(setImmediate);
        }
      });
    }),
  );
  const reply = await call();
  expect(reply.text).toBe(parts.join(''));
  expect(reply.rawTrailers).toEqual(['X-Sum', '42']);
});

test('trailers of a request are forwarded, except those that change how it is read', async () => {
  let trailers: string[] = [];
  await useHttp(async (request, response) => {
    await buffer(request);
    trailers = request.rawTrailers;
    response.end('ok');
  });
  await sendRaw(
    started.port,
    `POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nHost: evil\r\nX-Platform-Token: t\r\nAuthorization: x\r\n\r\n`,
    /ok/,
  );
  expect(trailers).toEqual(['X-Sum', '1']);
});

test('HEAD, 204 and 304 have no body, and the connection remains usable', async () => {
  await useHttp((request, response) => {
    if (request.url === '/204') response.writeHead(204).end();
    else if (request.url === '/304') response.writeHead(304, { etag: '"x"' }).end();
    else response.writeHead(200, { 'content-length': 5 }).end('hello');
  });
  const connection = new RawConnection(started.port);
  for (const line of ['HEAD /', 'GET /204', 'GET /304', 'GET /']) {
    connection.write(`${line} HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  }
  const received = await connection.expect(/hello$/);
  connection.destroy();
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]);
  expect(statuses).toEqual(['200', '204', '304', '200']);
  expect(received.match(/hello/g)).toHaveLength(1);
  expect(received.match(/Content-Length: 5/g)).toHaveLength(2);
});

test('events are forwarded as they arrive, and the head before the first of them', async () => {
  let events: http.ServerResponse | undefined;
  await useHttp((_request, response) => {
    events = response;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
  });
  const connection = new RawConnection(started.port);
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect('text/event-stream');
  for (const event of ['one', 'two', 'three']) {
    events!.write(`data: ${event}\n\n`);
    await connection.expect(`data: ${event}`);
  }
  connection.destroy();
});

test('request and response flow at the same time', async () => {
  await useHttp((request, response) => {
    response.writeHead(200);
    request.pipe(response);
  });
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  for (const word of ['ping', 'pong', 'over']) {
    connection.write(`4\r\n${word}\r\n`);
    await connection.expect(word);
  }
  connection.write('0\r\n\r\n');
  await connection.expect(/0\r\n\r\n$/);
  connection.destroy();
});

test('a sandbox that does not read slows the upload down', async () => {
  use(await startRawUpstream((socket) => socket.pause()));
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nContent-Length: 1000000000\r\n\r\n`);
  const block = Buffer.alloc(1_000_000);
  let written = 0;
  let isStuck = false;
  const memory = process.memoryUsage().arrayBuffers;
  while (!isStuck && written < 1_000_000_000) {
    if (connection.socket.write(block)) continue;
    written += block.length;
    isStuck = await Promise.race([
      once(connection.socket, 'drain').then(() => false),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 1000)),
    ]);
  }
  expect(written).toBeLessThan(40_000_000);
  expect(process.memoryUsage().arrayBuffers - memory).toBeLessThan(20_000_000);
  connection.destroy();
});

test('a client that disconnects during its upload ends the request in the sandbox', async () => {
  let received = 0;
  const upstream = await useHttp((request) => {
    request.on('data', (bytes) => {
      received += bytes.length;
    });
  });
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nContent-Length: 1000000\r\n\r\nbegin`);
  await until(() => received === 5);
  connection.destroy();
  await until(() => upstream.sockets.size === 0);
});

test('a client that does not read slows the sandbox down', async () => {
  let sent = 0;
  await useHttp((_request, response) => {
    response.writeHead(200);
    flood(response, Buffer.alloc(1_000_000), () => {
      sent += 1_000_000;
    });
  });
  const connection = new RawConnection(started.port);
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect('200 OK');
  connection.socket.pause();
  await untilStill(() => sent);
  expect(sent).toBeLessThan(40_000_000);
  connection.destroy();
});

test('a client that disconnects ends its request in the sandbox', async () => {
  const upstream = await useHttp((_request, response) => {
    response.writeHead(200);
    response.write('begin');
  });
  const connection = new RawConnection(started.port);
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect('begin');
  expect(upstream.sockets.size).toBe(1);
  connection.destroy();
  await until(() => upstream.sockets.size === 0);
  await until(() => started.gateway.stats().sandboxes === 0);
});

test('a client that leaves without reading what waits for it ends its request in the sandbox', async () => {
  const upstream = await useHttp((_request, response) => flood(response, Buffer.alloc(1_000_000)));
  const connection = new RawConnection(started.port);
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect('200 OK');
  connection.socket.pause();
  await untilStill(() => [...upstream.sockets][0]!.bytesWritten);
  connection.socket.end();
  await until(() => upstream.sockets.size === 0);
  await until(() => started.gateway.stats().sandboxes === 0);
  connection.destroy();
});

test('a client that ends its side of the connection amid its upload gets a refusal', async () => {
  const upstream = await useHttp((request) => {
    request.resume();
  });
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nContent-Length: 100\r\n\r\nbegin`);
  await until(() => upstream.sockets.size === 1);
  connection.socket.end();
  await connection.expect('400 Bad Request');
  await connection.closed();
  await until(() => upstream.sockets.size === 0);
});

test('a client can see that a response broke off', async () => {
  await useHttp((request, response) => {
    response.writeHead(200, request.url === '/chunks' ? {} : { 'content-length': 100 });
    response.write('part', () => response.destroy());
  });
  for (const path of ['/length', '/chunks']) {
    const connection = new RawConnection(started.port);
    connection.write(`GET ${path} HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
    await connection.closed();
    expect(connection.received).toMatch(/200 OK[\s\S]*part/);
    expect(connection.received).not.toMatch(/0\r\n\r\n$/);
  }
});

test('a sandbox that closes without an answer is 502', async () => {
  use(await startRawUpstream((socket) => socket.once('data', () => socket.destroy())));
  const reply = await call({ method: 'POST', body: 'x' });
  expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_no_reply']);
});

test.each([
  ['no HTTP at all', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
  ['a body of two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
  ['a length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a folded header', 'HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n'],
  ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n'],
  ['a bare line feed', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n'],
  ['a bare carriage return in a value', 'HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: x\r\nContent-Length: 0\r\n\r\n'],
  ['a protocol that was not requested', 'HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'],
  ['a head without end', `HTTP/1.1 200 OK\r\nA: ${'x'.repeat(70_000)}\r\n\r\n`],
])('a sandbox that answers with %s is 502', async (_what, answer) => {
  use(await startScriptedUpstream(answer));
  const reply = await call();
  expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_bad_response']);
});

test('Expect: 100-continue is forwarded to the sandbox, and after a refusal nothing is uploaded', async () => {
  let expected: string | undefined;
  const upstream = await useHttp((request, response) => {
    expected = request.headers.expect;
    request.resume().on('end', () => response.end('thanks'));
  });
  upstream.server.on('checkContinue', (request: http.IncomingMessage, response: http.ServerResponse) => {
    if (request.url === '/no') response.writeHead(413).end('too much');
    else {
      response.writeContinue();
      upstream.server.emit('request', request, response);
    }
  });
  const head = (path: string) =>
    `POST ${path} HTTP/1.1\r\nHost: ${sandboxHost}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`;
  const willing = new RawConnection(started.port);
  willing.write(head('/yes'));
  await willing.expect('HTTP/1.1 100 Continue\r\n\r\n');
  willing.write('hello');
  await willing.expect('thanks');
  expect(expected).toBe('100-continue');
  willing.destroy();

  const refused = new RawConnection(started.port);
  refused.write(head('/no'));
  await refused.expect('too much');
  expect(refused.received).not.toContain('100 Continue');
  // The bytes that follow could be the body or the next request.
  expect(refused.received).toContain('Connection: close');
  await refused.closed();
});

test('a sandbox that ignores Expect gets the body after a second', async () => {
  const upstream = await useHttp(() => undefined);
  upstream.server.on('checkContinue', (request: http.IncomingMessage, response: http.ServerResponse) => {
    request.resume().on('end', () => response.end('got it'));
  });
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`);
  await connection.expect('100 Continue');
  connection.write('hi');
  await connection.expect('got it');
  connection.destroy();
});

test('an unknown expectation is 417', async () => {
  await useHttp((_request, response) => response.end());
  const reply = await call({ headers: { expect: 'the-unexpected' } });
  expect([reply.status, reply.json.code]).toEqual([417, 'expectation_failed']);
});

test('early hints are forwarded', async () => {
  await useHttp((_request, response) => {
    response.writeEarlyHints({ link: '</a.css>; rel=preload' });
    response.end('page');
  });
  const answer = await sendRaw(started.port, `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`, /page$/);
  expect(answer).toMatch(/^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>; rel=preload\r\n\r\nHTTP\/1\.1 200 OK/);
});

test('a refusal before the end of the upload reaches the client, and the connection stays open', async () => {
  await useHttp((request, response) => {
    if (request.method === 'POST') response.writeHead(403).end('no');
    else response.end('yes');
  });
  const connection = new RawConnection(started.port);
  connection.write(`POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\nContent-Length: 4000000\r\n\r\n`);
  connection.write(Buffer.alloc(1_000_000));
  await connection.expect('403 Forbidden');
  connection.write(Buffer.alloc(3_000_000));
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect(/yes$/);
  connection.destroy();
});

test('a head is sent together with the available body, so a sandbox that closes after the head causes no reset', async () => {
  use(
    await startRawUpstream((socket) => {
      socket.once('data', (bytes) => {
        const isWhole = bytes.toString('latin1').endsWith('\r\n\r\nbody');
        socket.end(
          `HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 5\r\n\r\n${isWhole ? 'whole' : 'parts'}`,
        );
      });
    }),
  );
  for (let i = 0; i < 20; i++) {
    const reply = await call({ method: 'POST', body: 'body', headers: { 'content-length': 4 } });
    expect([reply.status, reply.text]).toEqual([401, 'whole']);
  }
});

test('HTTP/1.0 clients are served, with and without keep-alive', async () => {
  await useHttp((request, response) => {
    response.writeHead(200, request.url === '/known' ? { 'content-length': 2 } : {});
    response.end('ok');
  });
  const closing = new RawConnection(started.port);
  closing.write(`GET / HTTP/1.0\r\nHost: ${sandboxHost}\r\n\r\n`);
  await closing.closed();
  expect(closing.received).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*\r\n\r\nok$/);
  expect(closing.received.toLowerCase()).not.toContain('transfer-encoding');
  const staying = new RawConnection(started.port);
  for (let i = 1; i <= 2; i++) {
    staying.write(`GET /known HTTP/1.0\r\nHost: ${sandboxHost}\r\nConnection: keep-alive\r\n\r\n`);
    await staying.expect(i === 1 ? /ok$/ : /ok[\s\S]*ok$/);
  }
  staying.destroy();
});

test('connections to a sandbox are reused', async () => {
  const upstream = await useHttp((_request, response) => response.end('ok'));
  for (let i = 0; i < 20; i++) await call({ method: i % 2 ? 'POST' : 'GET' });
  expect(upstream.accepted()).toBe(1);
});

test('a repeatable request succeeds even if the sandbox has closed the kept connection', async () => {
  // It announces keep-alive and drops each connection at its second request.
  const upstream = use(
    await startRawUpstream((socket) => {
      let requests = 0;
      socket.on('data', () => {
        if (++requests === 2) socket.destroy();
        else socket.write('HTTP/1.1 200 OK\r\nKeep-Alive: timeout=60\r\nContent-Length: 2\r\n\r\nok');
      });
    }),
  );
  for (let i = 1; i <= 3; i++) {
    expect((await call()).text).toBe('ok');
    expect((await call()).text).toBe('ok');
  }
  expect(upstream.accepted()).toBeGreaterThanOrEqual(6);
  // A request that may have had an effect is not sent twice.
  expect((await call({ method: 'POST', body: 'x' })).json.code).toBe('sandbox_no_reply');
});

test('bytes after a response end its connection and reach no other client', async () => {
  const upstream = use(
    await startScriptedUpstream(
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil',
    ),
  );
  for (let i = 1; i <= 3; i++) expect((await call()).text).toBe('ok');
  expect(upstream.accepted()).toBe(3);
});

test('a moved sandbox gets new connections, and exchanges with the old address end', async () => {
  const old = await useHttp((request, response) => {
    if (request.url === '/stream') response.write('old');
    else response.end('old');
  });
  await call();
  const stream = new RawConnection(started.port);
  stream.write(`GET /stream HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await stream.expect('old');
  const agents = await startHttpUpstream((_request, response) => response.end('new'), '127.0.0.9', {}, old.port);
  use(agents);
  await stream.closed();
  await until(() => old.sockets.size === 0);
  expect((await call()).text).toBe('new');
});

test('a sandbox that moves while no changes arrive is found soon', async () => {
  const old = await useHttp((_request, response) => response.end('old'));
  const next = await startHttpUpstream((_request, response) => response.end('new'), '127.0.0.9', {}, old.port);
  stops.push(() => next.stop());
  started.routes.setLive(false);
  try {
    expect((await call()).text).toBe('old');
    started.routes.setSilently({ sandboxId: 'sbx-one', address: next.address });
    await until(async () => (await call()).text === 'new');
    // At once, not when the route would have expired.
    expect(old.sockets.size).toBe(0);
  } finally {
    started.routes.setLive(true);
  }
});

test('a sandbox never gets a connection of the previous sandbox at its address', async () => {
  const upstream = await useHttp((_request, response) => response.end('ok'));
  await call();
  started.routes.set({ sandboxId: 'sbx-successor', address: upstream.address, agentPort: upstream.port });
  await call({ host: formatHost('sbx-successor') });
  expect(upstream.accepted()).toBe(2);
  started.routes.remove('sbx-successor');
  await until(() => upstream.sockets.size === 1);
});

test('a paused sandbox keeps open exchanges and closes idle connections', async () => {
  let stream: http.ServerResponse | undefined;
  const upstream = await useHttp((request, response) => {
    if (request.url !== '/stream') response.end('ok');
    else {
      stream = response;
      response.write('before');
    }
  });
  const connection = new RawConnection(started.port);
  connection.write(`GET /stream HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await connection.expect('before');
  await call();
  expect(upstream.sockets.size).toBe(2);
  started.routes.set({ sandboxId: 'sbx-one', status: 'paused' });
  await until(() => upstream.sockets.size === 1);
  expect((await call()).json.code).toBe('sandbox_not_running');
  started.routes.set({ sandboxId: 'sbx-one', status: 'running' });
  stream!.write('after');
  await connection.expect('after');
  started.routes.set({ sandboxId: 'sbx-one', status: 'terminated' });
  await connection.closed();
});

test('500 concurrent requests each get their own answer', async () => {
  await useHttp(async (request, response) => {
    const body = await buffer(request);
    response.end(createHash('sha256').update(body).digest('hex'));
  });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 100 });
  const replies = await Promise.all(
    Array.from({ length: 500 }, async (_, i) => {
      const body = Buffer.alloc(100 * i, i);
      const reply = await call({ method: 'POST', body, agent });
      return reply.text === createHash('sha256').update(body).digest('hex') || [i, reply.status, reply.text];
    }),
  );
  agent.destroy();
  expect(replies.filter((reply) => reply !== true)).toEqual([]);
});
