import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { until } from '../support/until.ts';
import { RawConnection, send } from './client.ts';
import { knownNames } from './hostile/fields.ts';
import { headersFrame } from './hostile/http2-replies.ts';
import { SeededRandom } from './hostile/random.ts';
import { startCallUpstream } from './hostile/upstreams.ts';
import { MemoryGateway } from './memory-gateway.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, startRawUpstream, startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
let started: StartedGateway;
const stops: (() => Promise<void> | void)[] = [];

beforeAll(async () => {
  started = await startGateway();
});

afterEach(() => Promise.all(stops.splice(0).map((stop) => stop())));

afterAll(() => started.stop());

async function upstreamThatAnswers(answer: string): Promise<UpstreamServer> {
  const upstream = await startScriptedUpstream(Buffer.from(answer, 'latin1'));
  stops.push(() => upstream.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: upstream.address, agentPort: upstream.port });
  return upstream;
}

interface Outcome {
  status: number | null;
  headers: http2.IncomingHttpHeaders;
  trailers: http2.IncomingHttpHeaders;
  body: string;
  resetCode: number;
}

/** Sends a request over HTTP/2. Resolves when the stream is closed in any way. Rejects after a minute. */
async function callHttp2(headers: http2.OutgoingHttpHeaders = {}): Promise<Outcome> {
  const session = http2.connect(`http://${sandboxHost}`, {
    createConnection: () => net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  stops.push(() => session.destroy());
  const stream = session.request({ ':authority': sandboxHost, ':path': '/', ...headers });
  const outcome: Outcome = { status: null, headers: {}, trailers: {}, body: '', resetCode: 0 };
  stream.on('error', () => undefined);
  stream.on('response', (received) => {
    outcome.status = received[':status']!;
    outcome.headers = received;
  });
  stream.on('trailers', (received) => {
    outcome.trailers = received;
  });
  stream.on('data', (bytes) => {
    outcome.body += bytes;
  });
  const closed = new Promise((resolve) => stream.once('close', resolve));
  stream.end();
  const late = AbortSignal.timeout(60_000);
  const isClosed = await Promise.race([closed.then(() => true), once(late, 'abort').then(() => false)]);
  if (!isClosed) throw new Error(`no end within a minute: ${JSON.stringify(outcome)}`);
  outcome.resetCode = stream.rstCode!;
  return outcome;
}

const single =
  'Age: 1\r\nAge: 2\r\nRetry-After: 1\r\nRetry-After: 2\r\nX-Content-Type-Options: a\r\nX-Content-Type-Options: b\r\n';

test.each([
  ['doubled fields that may be there once', `HTTP/1.1 200 OK\r\n${single}Content-Length: 2\r\n\r\nok`],
  ['HTTP2-Settings', 'HTTP/1.1 200 OK\r\nHTTP2-Settings: AAMAAABk\r\nTE: gzip\r\nContent-Length: 2\r\n\r\nok'],
])('over HTTP/2 a reply with %s arrives', async (_what, answer) => {
  await upstreamThatAnswers(answer);
  const outcome = await callHttp2();
  expect(outcome).toMatchObject({ status: 200, body: 'ok', resetCode: 0 });
  expect(outcome.headers.te).toBeUndefined();
  expect(outcome.headers['http2-settings']).toBeUndefined();
});

test('over HTTP/2 doubled trailers arrive once', async () => {
  await upstreamThatAnswers(
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${single}X-Sum: 1\r\nHTTP2-Settings: a\r\n\r\n`,
  );
  expect(await callHttp2()).toMatchObject({
    status: 200,
    body: 'ok',
    resetCode: 0,
    trailers: { age: '1', 'retry-after': '1', 'x-sum': '1' },
  });
});

/** Each field that Node knows, twice, except those that frame a message. */
const doubledNames = knownNames
  .filter((name) => !['content-length', 'transfer-encoding'].includes(name))
  .map((name) => `${name}: 1\r\n${name}: 2\r\n`)
  .join('')
  .replaceAll(/^connection: .*\r\n/gm, '');

test('over HTTP/2 every known field may be doubled: in a 1xx, a head, a trailer, and a WebSocket reply', async () => {
  await upstreamThatAnswers(
    `HTTP/1.1 103 Hints\r\n${doubledNames}\r\nHTTP/1.1 200 OK\r\n${doubledNames}Transfer-Encoding: chunked\r\n\r\n0\r\n${doubledNames}\r\n`,
  );
  expect(await callHttp2()).toMatchObject({ status: 200, resetCode: 0, headers: { age: '1' }, trailers: { age: '1' } });
  await upstreamThatAnswers(
    `HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n${doubledNames.replaceAll(/^upgrade: .*\r\n/gm, '')}\r\n`,
  );
  const session = http2.connect(`http://${sandboxHost}`, {
    createConnection: () => net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  stops.push(() => session.destroy());
  await once(session, 'remoteSettings');
  const stream = session.request({
    ':authority': sandboxHost,
    ':path': '/',
    ':method': 'CONNECT',
    ':protocol': 'websocket',
  });
  const [headers] = await once(stream, 'response');
  expect(headers).toMatchObject({ ':status': 200, age: '1' });
});

test.each(['600', '999', '099'])('a reply with status %s is 502, also of gRPC', async (status) => {
  await upstreamThatAnswers(`HTTP/1.1 ${status} OK\r\nContent-Length: 0\r\n\r\n`);
  expect((await callHttp2()).status).toBe(502);
  expect((await send({ port: started.port, host: sandboxHost })).json.code).toBe('sandbox_bad_response');
  expect(started.log.join('')).toContain('a sandbox sent a bad reply');
  const calls = await startCallUpstream((streamId) => ({
    reply: headersFrame(streamId, [[':status', status]], true),
    random: new SeededRandom(1),
    ends: false,
  }));
  stops.push(() => calls.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: calls.address, agentPort: calls.port });
  expect((await callHttp2({ ':method': 'POST', 'content-type': 'application/grpc' })).status).toBe(502);
});

test('a gRPC reply with doubled fields and trailers arrives', async () => {
  const doubled: [string, string][] = ['age', 'retry-after', 'x-content-type-options'].flatMap(
    (name): [string, string][] => [
      [name, '1'],
      [name, '2'],
    ],
  );
  const type: [string, string] = ['content-type', 'application/grpc'];
  const calls = await startCallUpstream((streamId) => ({
    reply: Buffer.concat([
      headersFrame(streamId, [[':status', '200'], type, ...doubled], false),
      headersFrame(streamId, [['grpc-status', '0'], ...doubled], true),
    ]),
    random: new SeededRandom(1),
    ends: false,
  }));
  stops.push(() => calls.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: calls.address, agentPort: calls.port });
  expect(await callHttp2({ ':method': 'POST', 'content-type': 'application/grpc' })).toMatchObject({
    status: 200,
    resetCode: 0,
    headers: { age: '1' },
    trailers: { 'grpc-status': '0', age: '1' },
  });
});

test('a head that is too large for HTTP/2 is 502', async () => {
  await upstreamThatAnswers(`HTTP/1.1 200 OK\r\n${'a: \r\n'.repeat(6000)}Content-Length: 0\r\n\r\n`);
  expect((await callHttp2()).status).toBe(502);
});

test('trailers that are too large for HTTP/2 break the response off', async () => {
  await upstreamThatAnswers(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${'a: \r\n'.repeat(6000)}\r\n`);
  expect((await callHttp2()).resetCode).not.toBe(0);
});

test('an upgrade after a request without a response yet is an ordinary request', async () => {
  const upstream = await startHttpUpstream((request, response) => response.end(request.url));
  stops.push(() => upstream.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: upstream.address, agentPort: upstream.port });
  const connection = new RawConnection(started.port);
  stops.push(() => connection.destroy());
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
  connection.write(
    `GET /first HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\nGET /second HTTP/1.1\r\nHost: ${sandboxHost}\r\n${upgrade}\r\n`,
  );
  await connection.expect(/\/first[\s\S]*\/second/);
});

test('endless 1xx replies to clients that do not read use no memory, and end with 502', async () => {
  const early = Buffer.from(`HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(1000)}\r\n\r\n`.repeat(60));
  let sentBytes = 0;
  const flooder = await startRawUpstream((socket) => {
    const flood = () => {
      do sentBytes += early.length;
      while (!socket.destroyed && socket.write(early));
    };
    socket.on('drain', flood);
    socket.once('data', flood);
  });
  const gateway = await MemoryGateway.start([{ sandboxId: 'sbx-one', agentPort: flooder.port }]);
  const sockets: net.Socket[] = [];
  try {
    const before = gateway.memoryBytes;
    const sessions: http2.ClientHttp2Session[] = [];
    for (let i = 0; i < 50; i++) {
      const socket = net.connect(gateway.port, '127.0.0.1').pause();
      socket.on('error', () => undefined);
      socket.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
      sockets.push(socket);
      const silent = net.connect(gateway.port, '127.0.0.1');
      sockets.push(silent);
      sessions.push(http2.connect(`http://${sandboxHost}`, { createConnection: () => silent }));
      sessions[i]!.on('error', () => undefined);
      sessions[i]!.request({ ':authority': sandboxHost, ':path': '/' }).on('error', () => undefined);
    }
    await until(() => flooder.accepted() === 100 && flooder.sockets.size === 0);
    const grown = gateway.memoryBytes - before;
    console.log(
      `${(sentBytes / 1e6).toFixed(1)} MB of 1xx replies offered: the gateway grew by ${(grown / 1e6).toFixed(1)} MB`,
    );
    expect(grown).toBeLessThan(150e6);
    sockets[0]!.resume();
    const [reply] = await once(sockets[0]!, 'data');
    expect(String(reply)).toMatch(/^HTTP\/1\.1 (103|502)/);
    for (const session of sessions) session.destroy();
  } finally {
    for (const socket of sockets) socket.destroy();
    await gateway.stop();
    await flooder.stop();
  }
});
