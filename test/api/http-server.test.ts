import { once } from 'node:events';
import type http from 'node:http';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test } from '@jest/globals';
import { createHttpServer } from '../../api/http-server.ts';
import { flood } from '../support/flood.ts';
import { until } from '../support/until.ts';

const limits = {
  connectionsPerClient: 100,
  readGatewayClient: () => null,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  timeoutCheckMs: 2000,
};
let server: http.Server | undefined;
let client: net.Socket | undefined;

afterEach(async () => {
  client?.destroy();
  server?.closeAllConnections();
  server?.close();
});

type Handler = Parameters<typeof createHttpServer>[0];

/** @returns the data that the client has received so far */
async function connected(handler: Handler): Promise<() => string> {
  server = createHttpServer(handler, limits).listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1');
  let received = '';
  client.on('data', (bytes) => {
    received += bytes;
  });
  client.on('error', () => undefined);
  await once(client, 'connect');
  return () => received;
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

test('requests that arrive at once run one after another and are answered in order', async () => {
  let inProgress = 0;
  let most = 0;
  const received = await connected(({ url }, response) => {
    most = Math.max(most, ++inProgress);
    setImmediate(() => {
      inProgress--;
      response.end(`<${url}>`);
    });
  });
  client!.write(Array.from({ length: 16 }, (_, i) => get(`/${i}`)).join(''));
  await until(() => received().includes('</15>'));
  expect(received().match(/<\/\d+>/g)).toEqual(Array.from({ length: 16 }, (_, i) => `</${i}>`));
  expect(most).toBe(1);
});

test('an idle connection is kept for longer than load balancers and clients keep theirs', async () => {
  const received = await connected((_, response) => response.end('done'));
  client!.write(get('/'));
  await until(() => received().includes('done'));
  expect(received()).toContain('Keep-Alive: timeout=65\r\n');
});

test('a reply that its client does not read ends when the client ends the connection', async () => {
  let reply: http.ServerResponse | undefined;
  await connected((_, response) => {
    reply = response;
    flood(response, Buffer.alloc(1_000_000));
  });
  client!.pause();
  client!.write(get('/'));
  await until(() => reply !== undefined);
  client!.end();
  await until(() => reply!.closed);
  expect(reply!.writableFinished).toBe(false);
});

test('a complete reply reaches a client that has ended its side of the connection', async () => {
  const size = 16 * 1024 * 1024;
  const received = await connected((_, response) => response.end(Buffer.alloc(size, 'x')));
  client!.pause();
  client!.end(get('/'));
  await once(client!, 'finish');
  client!.resume();
  await once(client!, 'close');
  expect(received().length).toBeGreaterThan(size);
});

test('a connection with more than 16 waiting requests is closed, and no more are parsed', async () => {
  await connected(() => undefined);
  let parsed = 0;
  server!.on('request', () => {
    parsed++;
  });
  client!.write(Array.from({ length: 1000 }, (_, i) => get(`/${i}`)).join(''));
  await once(client!, 'close');
  expect(parsed).toBe(16);
});

test('a body of a thousand single bytes and one of large chunks arrive completely', async () => {
  const bodies: string[] = [];
  const received = await connected(async (request, response) => {
    bodies.push(await text(request));
    response.end(`<${bodies.length}>`);
  });
  const head = 'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
  const singles = Array.from({ length: 1000 }, (_, i) => `1\r\n${i % 10}\r\n`).join('');
  const large = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
  client!.write(`${head}${singles}0\r\n\r\n`);
  await until(() => received().includes('<1>'));
  client!.write(`${head}${large}1\r\ny\r\n${large}0\r\n\r\n`);
  await until(() => received().includes('<2>'));
  expect(bodies[0]).toBe(Array.from({ length: 1000 }, (_, i) => i % 10).join(''));
  expect(bodies[1]).toBe(`${'x'.repeat(0x10000)}y${'x'.repeat(0x10000)}`);
});

test('a body of tens of thousands of single bytes ends its connection', async () => {
  let failure: unknown;
  await connected(async (request) => {
    await text(request).catch((error) => {
      failure = error;
    });
  });
  const head = 'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
  client!.write(head + '1\r\nx\r\n'.repeat(30_000));
  // Its end may be a reset, because the server leaves bytes unread.
  await until(() => client!.closed);
  await until(() => failure !== undefined);
  expect(failure).toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' });
});

test('a body is not read beyond the bytes that came with its head until a handler reads it', async () => {
  let release = () => {};
  const received = await connected(async (request, response) => {
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    const all = await text(request);
    response.end(`<${all.length}>`);
  });
  const size = 16 * 1024 * 1024;
  client!.write(`POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${size}\r\n\r\n`);
  client!.write('x'.repeat(size));
  let before = -1;
  // The kernel accepts as much as fits into its buffers.
  await until(
    () => {
      const same = client!.bytesWritten - client!.writableLength === before;
      before = client!.bytesWritten - client!.writableLength;
      return same && before > 0;
    },
    90_000,
    500,
  );
  expect(client!.writableLength).toBeGreaterThan(0);
  release();
  await until(() => received().includes(`<${size}>`));
});
