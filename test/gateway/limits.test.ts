import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { WebSocket, WebSocketServer } from 'ws';
import type { GatewayOptions } from '../../gateway/gateway.ts';
import { until } from '../support/until.ts';
import { RawConnection, send } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, startRawUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A gateway with these limits, and two sandboxes whose requests to `/wait` are answered by `answerAll`. */
async function start(limits: GatewayOptions['limits'] = {}) {
  const started = await startGateway({ limits });
  const waiting: (() => void)[] = [];
  const upstream = await startHttpUpstream((request, response) => {
    if (request.url === '/wait') waiting.push(() => response.end('late'));
    else response.end('ok');
  });
  stops.push(
    () => started.stop(),
    () => upstream.stop(),
  );
  for (const sandboxId of ['sbx-one', 'sbx-two'] as const) {
    started.routes.set({ sandboxId, address: upstream.address, agentPort: upstream.port });
  }
  const answerAll = () => {
    for (const answer of waiting.splice(0)) answer();
  };
  return { started, upstream, waiting, answerAll };
}

function open(started: StartedGateway, path = '/', host = sandboxHost): RawConnection {
  const connection = new RawConnection(started.port);
  connection.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  return connection;
}

test('500 idle connections and 500 idle WebSockets to one sandbox slow no other client down', async () => {
  const { started, upstream } = await start();
  const median = async () => {
    const times: number[] = [];
    for (let i = 0; i < 100; i++) {
      const sentAt = performance.now();
      expect((await send({ port: started.port, host: formatHost(i % 2 ? 'sbx-one' : 'sbx-two') })).text).toBe('ok');
      times.push(performance.now() - sentAt);
    }
    return times.sort((a, b) => a - b)[50]!;
  };
  const medianBefore = await median();
  const server = new WebSocketServer({
    server: (upstream as UpstreamServer & { server: import('node:http').Server }).server,
  });
  const connections = Array.from({ length: 500 }, () => open(started));
  await Promise.all(connections.map((connection) => connection.expect('ok')));
  const sockets = await Promise.all(
    Array.from({ length: 500 }, async () => {
      const socket = new WebSocket(`ws://127.0.0.1:${started.port}/`, { headers: { host: sandboxHost } });
      await once(socket, 'open');
      return socket;
    }),
  );
  expect(started.gateway.stats().connections).toBe(1000);
  // Other programs may use the machine.
  expect(await median()).toBeLessThan(50 + 20 * medianBefore);
  // Idle clients hold no connections to the sandbox: the number of kept connections is limited.
  await until(() => upstream.sockets.size <= 500 + 64);
  for (const socket of sockets) socket.terminate();
  for (const connection of connections) connection.destroy();
  server.close();
  await until(() => started.gateway.stats().connections === 0);
  expect(started.gateway.stats()).toEqual({ connections: 0, sandboxes: 0, clients: 0 });
});

test('a client that opens many connections at once does not delay the connection of another', async () => {
  const { started } = await start({ maxConnectionsPerClient: 500 });
  const connect = async (localAddress: string) => {
    const socket = net.connect({ port: started.port, host: '127.0.0.1', localAddress });
    await once(socket, 'connect');
    return new RawConnection(started.port, socket);
  };
  const greedy = await Promise.all(Array.from({ length: 400 }, () => connect('127.0.0.1')));
  const calm = await connect('127.0.0.2');
  await until(() => started.gateway.stats().connections === 401);
  let servedBefore = -1;
  calm.socket.once('data', () => {
    servedBefore = greedy.filter(({ received }) => received !== '').length;
  });
  for (const connection of [...greedy, calm]) {
    connection.write(`GET / HTTP/1.1\r\nHost: ${formatHost('sbx-missing')}\r\n\r\n`);
  }
  await Promise.all([...greedy, calm].map((connection) => connection.expect('404')));
  // The last client is served among the first.
  expect(servedBefore).toBeLessThan(200);
  for (const connection of [...greedy, calm]) connection.destroy();
});

test('a sandbox at its limit of requests answers 503; other sandboxes are served, and it is again later', async () => {
  const { started, waiting, answerAll } = await start({ maxRequestsPerSandbox: 5 });
  const connections = Array.from({ length: 5 }, () => open(started, '/wait'));
  await until(() => waiting.length === 5);
  const refused = await send({ port: started.port, host: sandboxHost });
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([503, 'sandbox_busy', '1']);
  expect((await send({ port: started.port, host: formatHost('sbx-two') })).status).toBe(200);
  answerAll();
  await Promise.all(connections.map((connection) => connection.expect('late')));
  await until(async () => (await send({ port: started.port, host: sandboxHost })).status === 200);
  for (const connection of connections) connection.destroy();
});

test('requests of disconnected clients do not count', async () => {
  const { started, waiting } = await start({ maxRequestsPerSandbox: 3 });
  for (let round = 0; round < 5; round++) {
    const connections = Array.from({ length: 3 }, () => open(started, '/wait'));
    await until(() => waiting.length === 3 * (round + 1));
    for (const connection of connections) connection.destroy();
    await until(() => started.gateway.stats().sandboxes === 0);
  }
});

test('a client at its limit of concurrent requests gets 429', async () => {
  const { started, waiting, answerAll } = await start({ maxRequestsPerClient: 4 });
  const connections = Array.from({ length: 4 }, (_, i) =>
    open(started, '/wait', formatHost(i % 2 ? 'sbx-one' : 'sbx-two')),
  );
  await until(() => waiting.length === 4);
  const refused = await send({ port: started.port, host: sandboxHost });
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([429, 'too_many_requests', '1']);
  answerAll();
  for (const connection of connections) connection.destroy();
});

test('clients behind a trusted proxy are distinguished', async () => {
  const started = await startGateway({ trustProxy: true, limits: { maxRequestsPerClient: 1 } });
  const { upstream, waiting } = await start();
  stops.unshift(() => started.stop());
  started.routes.set({ sandboxId: 'sbx-one', address: upstream.address, agentPort: upstream.port });
  const request = (from: string) =>
    send({ port: started.port, host: sandboxHost, headers: { 'x-forwarded-for': `1.2.3.4, ${from}` } });
  const first = new RawConnection(started.port);
  first.write(`GET /wait HTTP/1.1\r\nHost: ${sandboxHost}\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n`);
  await until(() => waiting.length === 1);
  expect((await request('203.0.113.1')).status).toBe(429);
  expect((await request('203.0.113.2')).status).toBe(200);
  first.destroy();
});

test('a client with too many connections gets an error, then a closed connection', async () => {
  const { started } = await start({ maxConnectionsPerClient: 8 });
  const connections = Array.from({ length: 8 }, () => open(started));
  await Promise.all(connections.map((connection) => connection.expect('ok')));
  const refused = Array.from({ length: 2 }, () => new RawConnection(started.port));
  await until(() => started.gateway.stats().connections === 10);
  const ignored = new RawConnection(started.port);
  await ignored.closed();
  expect(ignored.received).toBe('');
  for (const connection of refused) {
    connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
    await connection.closed();
    expect(connection.received).toMatch(/^HTTP\/1\.1 429 [\s\S]*Retry-After: 1[\s\S]*Connection: close/);
  }
  connections[0]!.destroy();
  await until(() => started.gateway.stats().connections === 7);
  expect((await send({ port: started.port, host: sandboxHost })).status).toBe(200);
  for (const connection of connections) connection.destroy();
});

test('connections beyond the gateway’s limit are closed when they arrive', async () => {
  const { started } = await start({ maxConnections: 3 });
  const connections = Array.from({ length: 3 }, () => open(started));
  await Promise.all(connections.map((connection) => connection.expect('ok')));
  const refused = open(started);
  await refused.closed();
  expect(refused.received).toBe('');
  for (const connection of connections) connection.destroy();
});

test.each([
  ['says nothing', ''],
  ['stops after one letter', 'P'],
  ['stops amid its headers', `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\nX: `],
  ['stops amid its TLS handshake', '\x16\x03\x01'],
  ['stops after the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
])('a client that %s is not waited for', async (_what, bytes) => {
  const { started } = await start({ headersTimeoutMs: 500 });
  const connection = new RawConnection(started.port);
  if (bytes) connection.write(bytes);
  const startedAt = performance.now();
  expect(await connection.closed().then(() => 'closed')).toBe('closed');
  expect(performance.now() - startedAt).toBeGreaterThan(400);
  if (bytes.startsWith('GET')) expect(connection.received).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request_timeout"/);
  expect((await send({ port: started.port, host: sandboxHost })).text).toBe('ok');
});

test('after a stall the gateway reads what has arrived before it disconnects a client', async () => {
  const { started } = await start({ headersTimeoutMs: 1500 });
  const connection = new RawConnection(started.port);
  await until(() => started.gateway.stats().connections === 1);
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  // No other task of this process, in which the gateway runs, takes longer than the limit.
  for (const endsAt = performance.now() + 2000; performance.now() < endsAt; );
  await connection.expect('200 OK');
  connection.destroy();
});

test('a client that trickles its headers is not waited for', async () => {
  const { started } = await start({ headersTimeoutMs: 500 });
  const connection = open(started);
  await connection.expect('ok');
  connection.write(`GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n`);
  const trickle = setInterval(() => connection.write('X: y\r\n'), 50);
  await connection.closed();
  clearInterval(trickle);
  expect(connection.received).toContain('408 Request Timeout');
});

test('a client that trickles HTTP/2 frames without a request is not waited for', async () => {
  const { started } = await start({ headersTimeoutMs: 500 });
  const connection = new RawConnection(started.port);
  connection.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  // A header block without an end: a HEADERS frame without END_HEADERS. PINGs after it would be an error.
  connection.write('\0\0\x01\x01\x04\0\0\0\x01\x82');
  await connection.closed();
});

test('an upload or a stream takes as long as it needs', async () => {
  const { started, waiting, answerAll } = await start({ headersTimeoutMs: 300 });
  const connection = open(started, '/wait');
  await until(() => waiting.length === 1);
  const startedAt = performance.now();
  await until(() => performance.now() - startedAt > 1800);
  answerAll();
  await connection.expect('late');
  connection.destroy();
});

test.each(['a response', 'a WebSocket'])('the wait for a client that does not read %s is limited', async (what) => {
  const { started } = await start({ stalledClientTimeoutMs: 500 });
  const flooding = await startRawUpstream((socket) => {
    socket.once('data', () => {
      const isUpgrade = what === 'a WebSocket';
      socket.write(`HTTP/1.1 ${isUpgrade ? '101 S\r\nConnection: Upgrade\r\nUpgrade: websocket' : '200 OK'}\r\n\r\n`);
      socket.write(Buffer.alloc(30_000_000));
    });
  });
  stops.push(() => flooding.stop());
  started.routes.set({ sandboxId: 'sbx-flood', address: flooding.address, agentPort: flooding.port });
  const connection = new RawConnection(started.port);
  connection.write(
    `GET / HTTP/1.1\r\nHost: ${formatHost('sbx-flood')}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  await connection.expect('HTTP/1.1');
  connection.socket.pause();
  await until(() => flooding.sockets.size === 0);
  await until(() => started.gateway.stats().sandboxes === 0);
  connection.destroy();
});

test('a client that reads slowly is waited for', async () => {
  const { started } = await start({ stalledClientTimeoutMs: 5000 });
  const size = 20_000_000;
  const big = await startHttpUpstream((_request, response) => response.end(Buffer.alloc(size)));
  stops.push(() => big.stop());
  started.routes.set({ sandboxId: 'sbx-big', address: big.address, agentPort: big.port });
  const socket = net.connect(started.port, '127.0.0.1');
  socket.write(`GET / HTTP/1.1\r\nHost: ${formatHost('sbx-big')}\r\nConnection: close\r\n\r\n`);
  let received = 0;
  socket.on('data', (bytes) => {
    received += bytes.length;
    socket.pause();
    // Longer than the limit in total, but never as long without a read.
    setTimeout(() => socket.resume(), 25);
  });
  await once(socket, 'close');
  expect(received).toBeGreaterThan(size);
});

test('streams of one HTTP/2 connection count as requests', async () => {
  const { started, waiting } = await start({ maxRequestsPerSandbox: 10 });
  const session = http2.connect(`http://${sandboxHost}`, {
    createConnection: () => net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  const statuses: number[] = [];
  const streams = Array.from({ length: 15 }, () => {
    const stream = session.request({ ':authority': sandboxHost, ':path': '/wait' });
    stream.on('response', (headers) => statuses.push(headers[':status']!));
    return stream.resume();
  });
  await until(() => waiting.length === 10 && statuses.length === 5);
  expect(statuses).toEqual([503, 503, 503, 503, 503]);
  for (const stream of streams) stream.close();
  session.destroy();
  await until(() => started.gateway.stats().sandboxes === 0);
});
