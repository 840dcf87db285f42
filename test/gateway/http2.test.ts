import { once } from 'node:events';
import type http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { buffer } from 'node:stream/consumers';
import tls from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { WebSocketServer } from 'ws';
import { until } from '../support/until.ts';
import { RawConnection } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { listening, startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
let started: StartedGateway;
let sessions: http2.ClientHttp2Session[] = [];
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  started = await startGateway();
});

afterEach(async () => {
  for (const session of sessions) session.destroy();
  sessions = [];
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

afterAll(() => started.stop());

function use<U extends UpstreamServer>(upstream: U): U {
  stops.push(() => upstream.stop());
  started.routes.set({ sandboxId: 'sbx-one', status: 'running', address: upstream.address, agentPort: upstream.port });
  return upstream;
}

function connect(secure: boolean): http2.ClientHttp2Session {
  const session = http2.connect(`${secure ? 'https' : 'http'}://${sandboxHost}:${started.port}`, {
    createConnection: () =>
      secure
        ? tls.connect({
            port: started.port,
            host: '127.0.0.1',
            servername: sandboxHost,
            ca: started.ca.certificatePem,
            ALPNProtocols: ['h2'],
          })
        : net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  sessions.push(session);
  return session;
}

interface Http2Reply {
  headers: http2.IncomingHttpHeaders & { ':status'?: number };
  trailers: http2.IncomingHttpHeaders;
  body: Buffer;
}

async function call(
  session: http2.ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  body?: Buffer | string,
): Promise<Http2Reply> {
  const stream = session.request({ ':authority': sandboxHost, ...headers }, { endStream: body === undefined });
  let trailers: http2.IncomingHttpHeaders = {};
  stream.on('trailers', (received) => {
    trailers = received;
  });
  const answered = once(stream, 'response');
  if (body !== undefined) stream.end(body);
  const [received] = await answered;
  return { headers: received, body: await buffer(stream), trailers };
}

test('a request with an empty body reaches the sandbox complete', async () => {
  use(await startHttpUpstream((request, response) => request.resume().once('end', () => response.end('whole'))));
  const replies = await Promise.all(
    Array.from({ length: 3 }, () => call(connect(false), { ':method': 'POST' }, Buffer.alloc(0))),
  );
  expect(replies.map(({ body }) => body.toString())).toEqual(['whole', 'whole', 'whole']);
});

test.each([
  ['by prior knowledge', false],
  ['by ALPN', true],
])('requests %s reach an agent that speaks HTTP/1.1', async (_how, secure) => {
  use(
    await startHttpUpstream(async (request, response) => {
      const body = await buffer(request);
      response.writeHead(201, { 'set-cookie': ['a=1', 'b=2'], connection: 'close', 'x-size': body.length });
      response.end(JSON.stringify({ url: request.url, method: request.method, headers: request.headers }));
    }),
  );
  const session = connect(secure);
  const headers = {
    ':method': 'POST',
    ':path': '/a?b=c',
    cookie: ['x=1', 'y=2'],
    'x-platform-token': 'stolen',
    te: 'trailers',
  };
  const reply = await call(session, headers, Buffer.alloc(300_000));
  expect(reply.headers).toMatchObject({ ':status': 201, 'set-cookie': ['a=1', 'b=2'], 'x-size': '300000' });
  expect(reply.headers.connection).toBeUndefined();
  const seen = JSON.parse(reply.body.toString());
  expect(seen).toMatchObject({ url: '/a?b=c', method: 'POST' });
  expect(seen.headers).toMatchObject({
    host: sandboxHost,
    cookie: 'x=1; y=2',
    'x-forwarded-proto': secure ? 'https' : 'http',
    'transfer-encoding': 'chunked',
  });
  expect(JSON.stringify(seen)).not.toContain('stolen');
});

test('a request without a body has none, and HEAD, 204 and 304 have no response body', async () => {
  use(
    await startHttpUpstream((request, response) => {
      const framed = request.headers['content-length'] ?? request.headers['transfer-encoding'] ?? 'none';
      response.writeHead(Number(request.url!.slice(1)), { 'x-framed': framed });
      response.end(request.method === 'HEAD' || request.url !== '/200' ? undefined : 'body');
    }),
  );
  const session = connect(false);
  const get = await call(session, { ':path': '/200' });
  expect([get.headers['x-framed'], get.body.toString()]).toEqual(['none', 'body']);
  const post = await call(session, { ':path': '/200', ':method': 'POST' });
  expect(post.headers['x-framed']).toBe('0');
  for (const headers of [{ ':method': 'HEAD', ':path': '/200' }, { ':path': '/204' }, { ':path': '/304' }]) {
    const reply = await call(session, headers);
    expect([reply.headers[':status'], reply.body.length]).toEqual([Number(headers[':path'].slice(1)), 0]);
  }
});

test('many concurrent responses of all sizes and framings arrive completely', async () => {
  use(
    await startHttpUpstream((request, response) => {
      const [, framing, size] = request.url!.split('/');
      const body = Buffer.alloc(Number(size), size);
      if (framing === 'length') response.setHeader('content-length', body.length);
      response.write(body.subarray(0, body.length / 2));
      response.end(body.subarray(body.length / 2));
    }),
  );
  const session = connect(true);
  const cases = ['length', 'chunks'].flatMap((framing) =>
    [1, 100, 16_384, 70_000, 3_000_000].map((size) => ({ framing, size })),
  );
  await Promise.all(
    [...cases, ...cases, ...cases].map(async ({ framing, size }) => {
      const reply = await call(session, { ':path': `/${framing}/${size}` });
      expect(reply.body.equals(Buffer.alloc(size, String(size)))).toBe(true);
    }),
  );
});

test('reads of other connections do not overwrite bytes that wait for a slow client', async () => {
  const big = Buffer.from(Array.from({ length: 1_500_000 }, (_, i) => `${i};`).join(''));
  let held: http.ServerResponse | undefined;
  let asked = 0;
  use(
    await startHttpUpstream((request, response) => {
      asked++;
      if (request.url === '/big') response.end(big);
      else held = response;
    }),
  );
  const session = connect(false);
  // Leaves a connection whose last bytes had to wait for the client, as all bytes in HTTP/2 do.
  expect((await call(session, { ':path': '/big' })).body.equals(big)).toBe(true);
  const holding = call(session, { ':path': '/hold' });
  await until(() => held !== undefined);
  const slow = new RawConnection(started.port);
  slow.socket.pause();
  slow.write(`GET /big HTTP/1.1\r\nHost: ${sandboxHost}\r\nConnection: close\r\n\r\n`);
  await until(() => asked === 3);
  // Until the buffers of the sockets are full.
  await new Promise((resolve) => setTimeout(resolve, 300));
  held!.end(Buffer.alloc(250_000, '!'));
  await holding;
  slow.socket.resume();
  await slow.closed();
  expect(slow.received.slice(slow.received.indexOf('\r\n\r\n') + 4) === big.toString()).toBe(true);
});

test('errors of the gateway have the same format', async () => {
  const session = connect(false);
  const reply = await call(
    session,
    { ':authority': formatHost('sbx-nobody'), ':method': 'POST' },
    Buffer.alloc(1_000_000),
  );
  expect(reply.headers[':status']).toBe(404);
  expect(JSON.parse(reply.body.toString())).toMatchObject({ success: false, code: 'sandbox_not_found' });
  const platform = await call(session, { ':path': '/%70latform/state' });
  expect(platform.headers[':status']).toBe(404);
});

test.each([
  ['two hosts', { host: 'other' }, 400],
  ['a target with a fragment', { ':path': '/a#b' }, 400],
  ['a tunnel', { ':method': 'CONNECT', ':path': undefined, ':scheme': undefined }, 405],
  ['TRACE', { ':method': 'TRACE' }, 405],
])('%s is refused', async (_what, headers, status) => {
  const session = connect(false);
  expect((await call(session, { ...headers } as http2.OutgoingHttpHeaders)).headers[':status']).toBe(status);
});

test('events are forwarded as they arrive, and a client that cancels ends the request in the sandbox', async () => {
  const upstream = use(
    await startHttpUpstream((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: one\n\n');
    }),
  );
  const stream = connect(true).request({ ':authority': sandboxHost, ':path': '/' });
  const [bytes] = await once(stream, 'data');
  expect(String(bytes)).toBe('data: one\n\n');
  expect(upstream.sockets.size).toBe(1);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  await until(() => upstream.sockets.size === 0);
});

test('a response that breaks off resets the stream', async () => {
  use(
    await startHttpUpstream((_request, response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('part', () => response.destroy());
    }),
  );
  const stream = connect(false).request({ ':authority': sandboxHost });
  const [error] = await once(stream.resume(), 'error');
  expect(error.code).toBe('ERR_HTTP2_STREAM_ERROR');
});

test('a WebSocket in HTTP/2 reaches a sandbox that speaks HTTP/1.1', async () => {
  const upstream = use(await startHttpUpstream((_request, response) => response.end()));
  const server = new WebSocketServer({ server: upstream.server });
  server.on('connection', (socket) => socket.on('message', (message) => socket.send(`echo ${message}`)));
  const session = connect(true);
  await once(session, 'remoteSettings');
  expect(session.remoteSettings.enableConnectProtocol).toBe(true);
  const stream = session.request({
    ':authority': sandboxHost,
    ':method': 'CONNECT',
    ':protocol': 'websocket',
    ':path': '/',
    ':scheme': 'https',
    'sec-websocket-version': '13',
  });
  const [headers] = await once(stream, 'response');
  expect(headers[':status']).toBe(200);
  expect(headers['sec-websocket-accept']).toBeUndefined();
  stream.write(Buffer.from('\x81\x82\0\0\0\0hi', 'latin1'));
  const [bytes] = await once(stream, 'data');
  expect(bytes.toString('latin1')).toBe('\x81\x07echo hi');
  for (const client of server.clients) client.terminate();
  await once(stream, 'close');
});

/** An agent that speaks gRPC: HTTP/2 without TLS. */
async function useGrpc(onCall: (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void) {
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    onCall(stream, headers);
  });
  return use(await listening(server as unknown as net.Server, '127.0.0.1', 0));
}

const grpcCall = {
  ':method': 'POST',
  ':path': '/sandboxagent.Process/List',
  'content-type': 'application/grpc+proto',
  te: 'trailers',
};

test('a gRPC call is forwarded completely: frames, trailers, metadata', async () => {
  let seen: http2.IncomingHttpHeaders = {};
  await useGrpc(async (stream, headers) => {
    seen = headers;
    const body = await buffer(stream);
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc+proto', 'x-meta': ['a', 'b'] },
      { waitForTrailers: true },
    );
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'grpc-message': 'fine' }));
    stream.end(Buffer.concat([body, body]));
  });
  for (const secure of [true, false]) {
    const headers = { ...grpcCall, 'x-access-token': 'mine', 'x-platform-token': 'stolen', 'grpc-timeout': '10S' };
    const reply = await call(connect(secure), headers, Buffer.alloc(500_000, 1));
    expect(reply.headers).toMatchObject({ ':status': 200, 'content-type': 'application/grpc+proto', 'x-meta': 'a, b' });
    expect(reply.body.length).toBe(1_000_000);
    expect(reply.trailers).toMatchObject({ 'grpc-status': '0', 'grpc-message': 'fine' });
    expect(seen).toMatchObject({
      ':authority': sandboxHost,
      te: 'trailers',
      'x-access-token': 'mine',
      'grpc-timeout': '10S',
      'x-forwarded-for': '127.0.0.1',
    });
    expect(seen['x-platform-token']).toBeUndefined();
  }
});

test('a gRPC error of trailers alone is forwarded unchanged', async () => {
  await useGrpc((stream) =>
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5' }, { endStream: true }),
  );
  const reply = await call(connect(false), grpcCall, 'x');
  expect(reply.headers).toMatchObject({ ':status': 200, 'grpc-status': '5' });
  expect(reply.body.length).toBe(0);
});

test('a gRPC stream flows in both directions at the same time', async () => {
  await useGrpc((stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.pipe(stream);
  });
  const stream = connect(true).request({ ':authority': sandboxHost, ...grpcCall });
  let trailers: http2.IncomingHttpHeaders = {};
  stream.on('trailers', (received) => {
    trailers = received;
  });
  for (const word of ['ping', 'pong']) {
    stream.write(word);
    expect(String((await once(stream, 'data'))[0])).toBe(word);
  }
  stream.end();
  await once(stream.resume(), 'close');
  expect(trailers['grpc-status']).toBe('0');
});

test('a gRPC client that cancels is seen by the agent, and a reset of the agent by the client', async () => {
  const codes: number[] = [];
  await useGrpc((stream, headers) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.write('begun');
    stream.on('close', () => codes.push(stream.rstCode));
    if (headers[':path'] === '/reset') setImmediate(() => stream.close(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM));
  });
  const session = connect(false);
  const cancelled = session.request({ ':authority': sandboxHost, ...grpcCall });
  await once(cancelled, 'data');
  cancelled.close(http2.constants.NGHTTP2_CANCEL);
  await until(() => codes.includes(http2.constants.NGHTTP2_CANCEL));
  const reset = session.request({ ':authority': sandboxHost, ...grpcCall, ':path': '/reset' });
  reset.on('error', () => undefined);
  reset.resume();
  await until(() => reset.closed);
  expect(reset.rstCode).toBe(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
});

test('a gRPC call that the agent ends early is complete, and the client is asked to stop sending', async () => {
  await useGrpc((stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '3' }));
    stream.end('enough');
  });
  const stream = connect(false).request({ ':authority': sandboxHost, ...grpcCall });
  let trailers: http2.IncomingHttpHeaders = {};
  stream.on('trailers', (received) => {
    trailers = received;
  });
  stream.write('more to come');
  expect((await buffer(stream)).toString()).toBe('enough');
  await until(() => stream.closed);
  expect([trailers['grpc-status'], stream.rstCode]).toEqual(['3', 0]);
});

test('gRPC calls share one connection to the agent, and end with the sandbox', async () => {
  const upstream = await useGrpc((stream, headers) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    if (headers[':path'] === '/stay') stream.write('here');
    else stream.end('ok');
  });
  const session = connect(false);
  await Promise.all(Array.from({ length: 50 }, () => call(session, grpcCall, 'x')));
  expect(upstream.accepted()).toBe(1);
  const staying = session.request({ ':authority': sandboxHost, ...grpcCall, ':path': '/stay' });
  staying.on('error', () => undefined);
  await once(staying, 'data');
  started.routes.set({ sandboxId: 'sbx-one', status: 'terminated', address: null });
  staying.resume();
  await until(() => staying.closed);
  expect(staying.rstCode).not.toBe(0);
  const after = await call(session, grpcCall, 'x');
  expect(after.headers[':status']).toBe(502);
});

test('gRPC to a server of HTTP/1.1 only is 502', async () => {
  use(await startHttpUpstream((_request, response) => response.end('no')));
  const reply = await call(connect(false), grpcCall, 'x');
  expect([reply.headers[':status'], JSON.parse(reply.body.toString()).code]).toEqual([502, 'sandbox_bad_response']);
});

test('gRPC-Web and Connect are forwarded over HTTP/1.1', async () => {
  use(await startHttpUpstream((request, response) => response.end(request.httpVersion)));
  for (const type of ['application/grpc-web+proto', 'application/connect+json', 'application/json']) {
    const reply = await call(connect(false), { ...grpcCall, 'content-type': type }, 'x');
    expect(reply.body.toString()).toBe('1.1');
  }
});

test('streams beyond the limit wait, and a flood of resets ends only the connection', async () => {
  use(await startHttpUpstream((_request, response) => response.end('ok')));
  const session = connect(false);
  await once(session, 'remoteSettings');
  expect(session.remoteSettings.maxConcurrentStreams).toBe(128);
  const flood = connect(false);
  for (let i = 0; i < 2000 && !flood.destroyed; i++) {
    const stream = flood.request({ ':authority': sandboxHost });
    stream.on('error', () => undefined);
    stream.close(http2.constants.NGHTTP2_CANCEL);
  }
  await until(() => flood.destroyed);
  expect((await call(session, {})).body.toString()).toBe('ok');
  await until(() => started.gateway.stats().sandboxes === 0);
});

test('a connection that begins like HTTP/2 and is not is closed', async () => {
  const connection = new RawConnection(started.port);
  connection.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  connection.write(Buffer.alloc(100, 0xff));
  expect(await connection.closed().then(() => 'closed')).toBe('closed');
});

test('a preface that arrives byte by byte is accepted', async () => {
  const connection = new RawConnection(started.port);
  for (const byte of 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0') {
    connection.write(byte);
    await new Promise(setImmediate);
  }
  await until(() => connection.received.length >= 9);
  expect(connection.received.charCodeAt(3)).toBe(4);
  connection.destroy();
});
