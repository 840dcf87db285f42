import net from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../support/until.ts';
import { RawConnection, send, sendRaw } from './client.ts';
import { formatHost, type StartedGateway, startGateway, testDomain } from './started-gateway.ts';
import { startRawUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-one');
const smuggledRequest = `GET /smuggled HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`;
let started: StartedGateway;
/** A sandbox that records raw bytes, so that no parser hides anything. */
let sandbox: UpstreamServer;
let seen = '';

beforeAll(async () => {
  started = await startGateway();
  sandbox = await startRawUpstream((socket) => {
    socket.on('data', (bytes) => {
      seen += bytes.toString('latin1');
      if (bytes.includes('\r\n\r\n')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached');
    });
  });
  started.routes.set({ sandboxId: 'sbx-one', address: sandbox.address, agentPort: sandbox.port });
});

beforeEach(() => {
  seen = '';
});

afterAll(async () => {
  await started.stop();
  await sandbox.stop();
});

/** Sends the bytes and returns everything that is answered until the gateway closes. */
async function attack(bytes: string): Promise<string> {
  const connection = new RawConnection(started.port);
  connection.write(bytes);
  await connection.closed();
  return connection.received;
}

const post = (headers: string, body: string) => `POST / HTTP/1.1\r\nHost: ${sandboxHost}\r\n${headers}\r\n\r\n${body}`;

test.each([
  [
    'a length and chunks',
    post(`Content-Length: ${smuggledRequest.length + 5}\r\nTransfer-Encoding: chunked`, `0\r\n\r\n${smuggledRequest}`),
  ],
  ['chunks and a length', post('Transfer-Encoding: chunked\r\nContent-Length: 4', `0\r\n\r\n${smuggledRequest}`)],
  ['two lengths', post(`Content-Length: 0\r\nContent-Length: ${smuggledRequest.length}`, smuggledRequest)],
  ['the same length twice', post(`Content-Length: 5\r\nContent-Length: 5`, `hello${smuggledRequest}`)],
  ['a list of lengths', post('Content-Length: 0, 5', smuggledRequest)],
  ['a signed length', post('Content-Length: +5', `hello${smuggledRequest}`)],
  ['a negative length', post('Content-Length: -1', smuggledRequest)],
  ['a length in hex', post('Content-Length: 0x5', `hello${smuggledRequest}`)],
  ['a length beyond numbers', post('Content-Length: 99999999999999999999', smuggledRequest)],
  ['an empty length', post('Content-Length: ', smuggledRequest)],
  ['a length with a space before its colon', post('Content-Length : 5', `hello${smuggledRequest}`)],
  ['chunks with a space before their colon', post('Transfer-Encoding : chunked', `0\r\n\r\n${smuggledRequest}`)],
  ['chunks in a folded header', post('Transfer-Encoding:\r\n chunked', `0\r\n\r\n${smuggledRequest}`)],
  ['a folded header', post('X: a\r\n b\r\nContent-Length: 5', `hello${smuggledRequest}`)],
  ['chunks that are not last', post('Transfer-Encoding: chunked, identity', `0\r\n\r\n${smuggledRequest}`)],
  ['a coding with a vertical tab', post('Transfer-Encoding: \x0bchunked', `0\r\n\r\n${smuggledRequest}`)],
  [
    'chunks twice, differing',
    post('Transfer-Encoding: chunked\r\nTransfer-Encoding: x', `0\r\n\r\n${smuggledRequest}`),
  ],
  [
    'lines that end in bare line feeds',
    `POST / HTTP/1.1\nHost: ${sandboxHost}\nContent-Length: 0\n\n${smuggledRequest}`,
  ],
  ['one line that ends in a bare line feed', post('X: a\nContent-Length: 5', `hello${smuggledRequest}`)],
  ['a bare carriage return in a value', post('X: a\rContent-Length: 5', `hello${smuggledRequest}`)],
  ['a NUL in a value', post('X: a\0b', smuggledRequest)],
  ['a header without a name', post(': x', smuggledRequest)],
  ['a header without a colon', post('X', smuggledRequest)],
  ['a header with a space in its name', post('X Y: z', smuggledRequest)],
  ['a first header that is indented', `GET / HTTP/1.1\r\n Host: ${sandboxHost}\r\n\r\n${smuggledRequest}`],
  ['a chunk size with a sign', post('Transfer-Encoding: chunked', `+5\r\nhello\r\n0\r\n\r\n${smuggledRequest}`)],
  ['a chunk size in 0x', post('Transfer-Encoding: chunked', `0x5\r\nhello\r\n0\r\n\r\n${smuggledRequest}`)],
  ['a chunk size beyond numbers', post('Transfer-Encoding: chunked', `fffffffffffffffff\r\n${smuggledRequest}`)],
  [
    'a chunk line that ends in a bare line feed',
    post('Transfer-Encoding: chunked', `5\nhello\r\n0\r\n\r\n${smuggledRequest}`),
  ],
  ['a chunk longer than it says', post('Transfer-Encoding: chunked', `5\r\nhello!\r\n0\r\n\r\n${smuggledRequest}`)],
  ['a request line with a tab', `GET\t/ HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n${smuggledRequest}`],
  ['a request line with a space in the target', `GET /a b HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n${smuggledRequest}`],
  ['another protocol', 'SSH-2.0-OpenSSH_9.2p1\r\n'],
])('%s is refused, and smuggles nothing into the sandbox', async (_what, bytes) => {
  const received = await attack(bytes);
  expect(received).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*Connection: close\r\n/);
  expect(JSON.parse(received.slice(received.indexOf('\r\n\r\n')))).toMatchObject({
    success: false,
    code: 'malformed_request',
  });
  expect(seen).not.toContain('smuggled');
});

test('a method that there is none is 405, and smuggles nothing into the sandbox', async () => {
  const received = await attack(`SMUGGLE / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n${smuggledRequest}`);
  expect(received).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n[\s\S]*Connection: close\r\n/);
  expect(seen).not.toContain('smuggled');
});

test.each([
  ['an unknown coding', post('Transfer-Encoding: xchunked', `0\r\n\r\n${smuggledRequest}`)],
  ['a coding before chunks', post('Transfer-Encoding: gzip, chunked', '0\r\n\r\n')],
  ['chunks in HTTP/1.0', `POST / HTTP/1.0\r\nHost: ${sandboxHost}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
])('%s is refused as unknown', async (_what, bytes) => {
  expect(await attack(bytes)).toMatch(/^HTTP\/1\.1 501 [\s\S]*Connection: close\r\n/);
  expect(seen).toBe('');
});

test.each(['HTTP/2.0', 'HTTP/1.9', 'HTTP/0.9', ''])('a request of version "%s" is refused', async (version) => {
  const received = await attack(`GET / ${version}\r\nHost: ${sandboxHost}\r\n\r\n${smuggledRequest}`);
  expect(received).toMatch(/^HTTP\/1\.1 (400|505) /);
  expect(seen).toBe('');
});

test('chunks are joined and rewritten: extensions and odd sizes are not forwarded', async () => {
  const body = '005;a="b"\r\nhello\r\n1;x\r\n!\r\n0;end\r\n\r\n';
  await sendRaw(started.port, post('Transfer-Encoding: CHUNKED', body), /reached/);
  expect(seen).toContain('Transfer-Encoding: chunked\r\n');
  expect(seen.slice(seen.indexOf('\r\n\r\n') + 4)).toBe('6\r\nhello!\r\n0\r\n\r\n');
});

test('bytes after a body’s length are the next request, which goes to the host that it names', async () => {
  const connection = new RawConnection(started.port);
  connection.write(
    `${post('Content-Length: 5', 'hello')}GET /next HTTP/1.1\r\nHost: ${formatHost('sbx-nobody')}\r\n\r\n`,
  );
  await connection.expect('sandbox_not_found');
  connection.destroy();
  expect(seen).not.toContain('/next');
});

test.each([
  ['no host', 'GET / HTTP/1.1\r\n\r\n'],
  ['an empty host', 'GET / HTTP/1.1\r\nHost: \r\n\r\n'],
  ['two hosts', `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\nHost: ${sandboxHost}\r\n\r\n`],
  ['two hosts, differing', `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\nhost: ${formatHost('sbx-two')}\r\n\r\n`],
  ['no host in HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n'],
  [
    'an absolute form for another host',
    `GET http://${formatHost('sbx-two')}/ HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`,
  ],
  ['an absolute form without a host', `GET http:///x HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`],
  ['user information', `GET / HTTP/1.1\r\nHost: user@${sandboxHost}\r\n\r\n`],
  ['user information in an absolute form', `GET http://x@${sandboxHost}/ HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`],
  ['a path in the host', `GET / HTTP/1.1\r\nHost: ${sandboxHost}/x\r\n\r\n`],
  ['a space in the host', `GET / HTTP/1.1\r\nHost: ${sandboxHost} x\r\n\r\n`],
  ['a list of hosts', `GET / HTTP/1.1\r\nHost: ${sandboxHost},${sandboxHost}\r\n\r\n`],
  ['a port that is none', `GET / HTTP/1.1\r\nHost: ${sandboxHost}:http\r\n\r\n`],
  ['a port beyond ports', `GET / HTTP/1.1\r\nHost: ${sandboxHost}:65536\r\n\r\n`],
  ['two dots at the end', `GET / HTTP/1.1\r\nHost: ${sandboxHost}..\r\n\r\n`],
  ['a NUL escaped', `GET / HTTP/1.1\r\nHost: ${sandboxHost}%00\r\n\r\n`],
])('%s is an invalid host', async (_what, bytes) => {
  const received = await sendRaw(started.port, bytes, /\}$/);
  expect(received).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"invalid_host"/);
  expect(seen).toBe('');
});

test('an absolute form for the same host is served as its path', async () => {
  await sendRaw(
    started.port,
    `GET http://${sandboxHost.toUpperCase()}/a?b HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`,
    /reached/,
  );
  expect(seen).toMatch(new RegExp(`^GET /a\\?b HTTP/1.1\r\nHost: ${sandboxHost}\r\n`, 'i'));
});

test.each([
  ['an asterisk', 'GET * HTTP/1.1'],
  ['no slash', 'GET x HTTP/1.1'],
  ['a fragment', 'GET /a#b HTTP/1.1'],
  ['bytes beyond ASCII', 'GET /\xe9 HTTP/1.1'],
])('a target with %s is refused', async (_what, line) => {
  expect(await sendRaw(started.port, `${line}\r\nHost: ${sandboxHost}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
  expect(seen).toBe('');
});

test('OPTIONS may have the target *', async () => {
  await sendRaw(started.port, `OPTIONS * HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`, /reached/);
  expect(seen).toMatch(/^OPTIONS \* HTTP/);
});

test.each(['TRACE', 'CONNECT', 'FOO'])('%s is not forwarded', async (method) => {
  const target = method === 'CONNECT' ? `${sandboxHost}:80` : '/';
  expect(await sendRaw(started.port, `${method} ${target} HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 405 /,
  );
  expect(seen).toBe('');
});

test.each([
  ['a huge header', `X: ${'x'.repeat(40_000)}\r\n`, ''],
  ['a huge target', '', 'x'.repeat(40_000)],
  ['too many headers', Array.from({ length: 300 }, (_, i) => `X${i}: y\r\n`).join(''), ''],
])('%s is 431', async (_what, headers, target) => {
  const received = await attack(`GET /${target} HTTP/1.1\r\nHost: ${sandboxHost}\r\n${headers}\r\n`);
  expect(received).toMatch(/^HTTP\/1\.1 431 [\s\S]*"code":"headers_too_large"/);
  expect(seen).toBe('');
});

test('endless trailers and chunk extensions are cut', async () => {
  for (const tail of [`0\r\n${'X: y\r\n'.repeat(20_000)}`, `5;${'x'.repeat(40_000)}\r\n`]) {
    const connection = new RawConnection(started.port);
    connection.write(post('Transfer-Encoding: chunked', tail));
    await connection.closed();
    expect(connection.received).not.toContain('200 OK');
  }
});

test('upgrades to other protocols are ignored', async () => {
  await sendRaw(
    started.port,
    `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
    /reached/,
  );
  expect(seen.toLowerCase()).not.toMatch(/upgrade|http2-settings/);
});

test.each([
  ['random bytes', Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 7919) & 0xff))],
  ['a TLS record that is none', Buffer.concat([Buffer.from([0x16, 3, 1, 0x40, 0]), Buffer.alloc(0x4000, 0xee)])],
  ['a TLS alert', Buffer.from([0x15, 3, 1, 0, 2, 2, 40])],
  ['zeros', Buffer.alloc(100_000)],
])('%s end the connection and nothing else', async (_what, bytes) => {
  const connection = new RawConnection(started.port);
  connection.write(bytes);
  await connection.closed();
  expect((await send({ port: started.port, host: sandboxHost })).text).toBe('reached');
});

test('a connection that begins like HTTP/2 and then stops keeps nothing busy', async () => {
  const idle = ['P', 'PR'].map((start) => {
    const connection = new RawConnection(started.port);
    connection.write(start);
    return connection;
  });
  // Garbage collections may still run. A connection that is read endlessly would be busy in every interval.
  await until(async () => {
    const before = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const used = process.cpuUsage(before);
    return (used.user + used.system) / 1000 < 150;
  });
  expect((await send({ port: started.port, host: sandboxHost })).text).toBe('reached');
  for (const connection of idle) connection.destroy();
});

test('a connection with a hundred thousand pipelined requests is closed; 64 at most reach the sandbox', async () => {
  const connection = new RawConnection(started.port);
  const flood = `GET / HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`.repeat(1000);
  for (let i = 0; i < 100 && !connection.isClosed; i++) {
    if (!connection.socket.write(flood))
      await Promise.race([new Promise((done) => connection.socket.once('drain', done)), connection.closed()]);
  }
  await connection.closed();
  expect(sandbox.sockets.size).toBeLessThanOrEqual(64);
});

test('no host name gives access to a port of loopback', async () => {
  const inner = net.createServer((socket) => socket.end('inner'));
  await new Promise<void>((resolve) => inner.listen(0, '127.0.0.1', resolve));
  const { port } = inner.address() as net.AddressInfo;
  for (const host of [`127.0.0.1:${port}`, `${port}-localhost.${testDomain}`, `localhost:${port}`, `[::1]:${port}`]) {
    expect((await send({ port: started.port, host })).text).not.toContain('inner');
  }
  inner.close();
});
