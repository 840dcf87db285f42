import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { WebSocket, WebSocketServer } from 'ws';
import { flood } from '../support/flood.ts';
import { until, untilStill } from '../support/until.ts';
import { RawConnection, sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
const upgradeRequest =
  `Host: ${sandboxHost}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
let started: StartedGateway;
let echo: UpstreamServer;
let echoes: WebSocketServer;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  started = await startGateway();
  const upstream = await startHttpUpstream((_request, response) => response.writeHead(426).end('use a WebSocket'));
  echoes = new WebSocketServer({ server: upstream.server, handleProtocols: (protocols) => [...protocols][0] ?? false });
  echoes.on('connection', (socket, request) => {
    socket.on('error', () => undefined);
    if (request.url === '/headers') socket.send(JSON.stringify(request.headers));
    socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
  });
  echo = upstream;
});

afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

afterAll(async () => {
  await started.stop();
  await echo.stop();
});

function use(upstream: UpstreamServer): UpstreamServer {
  started.routes.set({ sandboxId: 'sbx-one', status: 'running', address: upstream.address, agentPort: upstream.port });
  return upstream;
}

async function open(path = '/', { secure = false } = {}): Promise<WebSocket> {
  const socket = new WebSocket(`${secure ? 'wss' : 'ws'}://127.0.0.1:${started.port}${path}`, {
    headers: { host: sandboxHost },
    ca: started.ca.certificatePem,
    // Its type lacks this option, which it forwards.
    ...(secure && { servername: sandboxHost }),
  });
  await once(socket, 'open');
  return socket;
}

test.each([false, true])('messages of all sizes come back as they were sent (TLS: %s)', async (secure) => {
  use(echo);
  const socket = await open('/', { secure });
  for (const size of [0, 1, 125, 126, 65_535, 65_536, 3_000_000]) {
    const message = randomBytes(size);
    socket.send(message);
    const [received] = await once(socket, 'message');
    expect((received as Buffer).equals(message)).toBe(true);
  }
  socket.close(4001, 'enough');
  expect((await once(socket, 'close'))[0]).toBe(4001);
});

test('many messages in quick succession keep their order', async () => {
  use(echo);
  const socket = await open();
  const received: string[] = [];
  socket.on('message', (message) => received.push(String(message)));
  const sent = Array.from({ length: 5000 }, (_, i) => `${i}:${'x'.repeat(i % 300)}`);
  for (const message of sent) socket.send(message);
  await until(() => received.length === sent.length);
  expect(received).toEqual(sent);
  socket.terminate();
});

test('the agreed protocol is forwarded, and headers as for every request', async () => {
  use(echo);
  const socket = new WebSocket(`ws://127.0.0.1:${started.port}/headers`, ['chat', 'other'], {
    headers: { host: sandboxHost, 'x-platform-token': 'stolen', 'x-forwarded-for': '6.6.6.6' },
  });
  const [message] = await once(socket, 'message');
  const headers = JSON.parse(String(message));
  expect(socket.protocol).toBe('chat');
  expect(headers).toMatchObject({
    host: sandboxHost,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    upgrade: 'websocket',
  });
  expect(JSON.stringify(headers)).not.toContain('stolen');
  socket.terminate();
});

test('a message that follows the handshake at once is not lost', async () => {
  use(echo);
  const connection = new RawConnection(started.port);
  // A masked text frame "hi", its mask all zero.
  connection.write(`GET / HTTP/1.1\r\n${upgradeRequest}\r\n\x81\x82\0\0\0\0hi`);
  await connection.expect('\r\n\r\n\x81\x02hi');
  connection.destroy();
});

test('a client that disconnects ends the connection in the sandbox, and vice versa', async () => {
  use(echo);
  const first = await open();
  await until(() => echoes.clients.size === 1);
  first.terminate();
  await until(() => echoes.clients.size === 0);
  const second = await open();
  await until(() => echoes.clients.size === 1);
  for (const client of echoes.clients) client.terminate();
  await once(second, 'close');
  await until(() => started.gateway.stats().sandboxes === 0);
});

test('the end of a sandbox closes its WebSockets', async () => {
  use(echo);
  const socket = await open();
  started.routes.set({ sandboxId: 'sbx-one', status: 'terminated', address: null });
  await once(socket, 'close');
  const refused = new WebSocket(`ws://127.0.0.1:${started.port}/`, { headers: { host: sandboxHost } });
  const [error] = await once(refused, 'error');
  expect(String(error)).toContain('502');
});

test('a refusal of the sandbox is forwarded to the client, and nothing is tunnelled after it', async () => {
  const seen: string[] = [];
  const refusing = await startHttpUpstream((request, response) => {
    seen.push(request.url!);
    response.writeHead(403, { 'content-type': 'text/plain' }).end('not you');
  });
  stops.push(() => refusing.stop());
  use(refusing);
  const connection = new RawConnection(started.port);
  connection.write(
    `GET /first HTTP/1.1\r\n${upgradeRequest}\r\nGET /platform/state HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`,
  );
  await connection.closed();
  expect(connection.received).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n[\s\S]*not you/);
  expect(seen).toEqual(['/first']);
});

test.each([
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'],
  ['no protocol', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
])('a sandbox that switches to %s is 502', async (_what, answer) => {
  const upstream = await startScriptedUpstream(answer);
  stops.push(() => upstream.stop());
  use(upstream);
  expect(await sendRaw(started.port, `GET / HTTP/1.1\r\n${upgradeRequest}\r\n`)).toMatch(/^HTTP\/1\.1 502 /);
});

test('the paths of the platform are closed for WebSockets too', async () => {
  use(echo);
  expect(await sendRaw(started.port, `GET /%70latform/x HTTP/1.1\r\n${upgradeRequest}\r\n`)).toMatch(
    /^HTTP\/1\.1 404 /,
  );
});

test.each([
  ['another method', `POST / HTTP/1.1\r\n${upgradeRequest}Content-Length: 0\r\n\r\n`],
  ['a body', `GET / HTTP/1.1\r\n${upgradeRequest}Content-Length: 2\r\n\r\nhi`],
  ['HTTP/1.0', `GET / HTTP/1.0\r\n${upgradeRequest}\r\n`],
  ['h2c beside it', `GET / HTTP/1.1\r\n${upgradeRequest.replace('Upgrade: websocket', 'Upgrade: h2c, websocket')}\r\n`],
])('a handshake with %s is an ordinary request', async (_what, request) => {
  use(echo);
  expect(await sendRaw(started.port, request)).toMatch(/^HTTP\/1\.1 426 /);
});

test('a client that does not read slows the sandbox down', async () => {
  let sent = 0;
  const flooding = await startHttpUpstream(() => undefined);
  stops.push(() => flooding.stop());
  flooding.server.on('upgrade', (_request, socket) => {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    flood(socket, Buffer.alloc(100_000), () => {
      sent += 100_000;
    });
  });
  use(flooding);
  const connection = new RawConnection(started.port);
  connection.write(`GET / HTTP/1.1\r\n${upgradeRequest}\r\n`);
  await connection.expect('101 Switching');
  connection.socket.pause();
  await untilStill(() => sent);
  expect(sent).toBeLessThan(40_000_000);
  connection.destroy();
});
