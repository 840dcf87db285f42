import { once } from 'node:events';
import type http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../support/until.ts';
import { RawConnection } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
const rootRequest = `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`;
let started: StartedGateway;
let upstream: UpstreamServer;
let waiting: http.ServerResponse[];

beforeEach(async () => {
  waiting = [];
  started = await startGateway();
  upstream = await startHttpUpstream((request, response) => {
    if (request.url === '/') response.end('ok');
    else waiting.push(response);
  });
  started.routes.set({ sandboxId: 'sbx-one', address: upstream.address, agentPort: upstream.port });
});

afterEach(async () => {
  await started.stop();
  await upstream.stop();
});

test('current requests complete, idle connections are closed, new ones are refused', async () => {
  const idle = new RawConnection(started.port);
  idle.write(rootRequest);
  await idle.expect('ok');
  const silent = new RawConnection(started.port);
  await once(silent.socket, 'connect');
  const busy = new RawConnection(started.port);
  busy.write(`GET /wait HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  const session = http2.connect(`http://${sandboxHost}`, {
    createConnection: () => net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  const stream = session.request({ ':authority': sandboxHost, ':path': '/wait' });
  await until(() => waiting.length === 2);

  const closed = started.gateway.close(60_000);
  await idle.closed();
  await silent.closed();
  const [error] = await once(net.connect(started.port, '127.0.0.1'), 'error');
  expect(error.code).toBe('ECONNREFUSED');
  expect(busy.isClosed).toBe(false);
  const answered = once(stream, 'data');
  for (const response of waiting) response.end('finished');
  await busy.expect('finished');
  expect(busy.received).toContain('Connection: close');
  expect(String((await answered)[0])).toBe('finished');
  await closed;
  expect(started.accesses.flat()).toEqual(['sbx-one']);
});

test('a response that began before the stop closes its connection afterwards', async () => {
  const busy = new RawConnection(started.port);
  busy.write(`GET /wait HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await until(() => waiting.length === 1);
  waiting[0]!.write('begun');
  await busy.expect('begun');
  const closed = started.gateway.close(60_000);
  waiting[0]!.end('finished');
  await busy.expect('finished');
  await closed;
  await busy.closed();
});

test('exchanges that do not end in time are broken off', async () => {
  const busy = new RawConnection(started.port);
  busy.write(`GET /wait HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`);
  await until(() => waiting.length === 1);
  const startedAt = performance.now();
  await started.gateway.close(300);
  expect(performance.now() - startedAt).toBeLessThan(30_000);
  await busy.closed();
  await until(() => upstream.sockets.size === 0);
});
