import fs from 'node:fs';
import http2 from 'node:http2';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { issueLeaf, openLocalCa } from '../../../gateway/tls/local-ca.ts';
import { WebhookSender } from '../../../integrations/webhooks/sender.ts';
import type { OwnService } from '../../../platform/config/own-services.ts';
import { endHeaders, endStream, frame, preface } from '../../gateway/floods/http2-frames.ts';
import { Canary } from '../../support/hostile-storage.ts';
import { NameServer } from '../../support/name-server.ts';
import { until } from '../../support/until.ts';
import { answerWith, WebhookReceiver } from '../../support/webhook-receiver.ts';

const loopback = ['127.0.0.0/8', '::1/128'];
const senders: WebhookSender[] = [];
const servers: net.Server[] = [];
let receiver: WebhookReceiver;

beforeAll(async () => {
  receiver = await WebhookReceiver.start(answerWith(200, {}, 'thanks'));
});
afterAll(async () => {
  for (const sender of senders) await sender.close();
  for (const server of servers) server.close();
  await receiver.stop();
});

function sender(options: {
  ranges?: readonly string[];
  services?: OwnService[];
  networks?: string[];
  ca?: string;
  nameservers?: string[];
  maxBytesPerSecond?: number;
}): WebhookSender {
  const made = new WebhookSender({
    allowedRanges: options.ranges ?? [],
    ownServices: async () => options.services ?? [],
    sandboxNetworks: async () => options.networks ?? [],
    ca: options.ca,
    maxBytesPerSecond: options.maxBytesPerSecond,
    ...(options.nameservers && { nameservers: options.nameservers }),
  });
  senders.push(made);
  return made;
}

const request = (url: string, timeoutSeconds = 60) => ({
  url,
  headers: { 'webhook-id': 'evt-1' },
  body: '{}',
  timeoutSeconds,
});
const readPort = (server: net.Server) => (server.address() as AddressInfo).port;

/** A server with a handler of raw connections. */
async function rawServer(onConnection: (socket: net.Socket) => void): Promise<string> {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    onConnection(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${readPort(server)}/`;
}

test('a request is posted as JSON with its headers, and the result has status, time and reply', async () => {
  const outcome = await sender({ ranges: loopback }).send(request(`${receiver.url}?a=b`));
  expect(outcome).toEqual({
    startedAt: expect.any(String),
    durationMs: expect.any(Number),
    ...{ httpStatus: 200, error: null, reply: 'thanks', retryAfterMs: null },
  });
  const { headers, body } = receiver.received.at(-1)!;
  expect([headers['content-type'], headers['webhook-id'], body]).toEqual(['application/json', 'evt-1', '{}']);
});

test('connections are reused', async () => {
  const ports = new Set<number | undefined>();
  const one = await WebhookReceiver.start((_request, response) => {
    ports.add(response.socket?.remotePort);
    response.end();
  });
  const same = sender({ ranges: loopback });
  for (let number = 0; number < 5; number += 1) expect((await same.send(request(one.url))).error).toBeNull();
  expect(ports.size).toBeLessThan(5);
  await one.stop();
});

describe('addresses', () => {
  test('without opened ranges, no spelling of a closed address is connected to', async () => {
    const canary = await Canary.start('::');
    const { port } = canary;
    const closed = sender({});
    const spellings = [
      ...['127.0.0.1', '127.9.9.9', 'localhost', 'a.localhost', '0.0.0.0', '2130706433', '0x7f000001', '017700000001'],
      ...[
        '0177.1',
        '[::1]',
        '[::]',
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[64:ff9b::127.0.0.1]',
        '[64:ff9b::7f00:1]',
      ],
      ...['[::127.0.0.1]', '[2002:7f00:1::]', '10.0.0.1', '172.16.0.1', '192.168.0.1', '169.254.169.254', '100.64.0.1'],
      ...['[fe80::1]', '[fd00:ec2::254]', '198.18.0.1', '224.0.0.1', '255.255.255.255'],
    ];
    for (const host of spellings) {
      const { error, httpStatus } = await closed.send(request(`http://${host}:${port}/`));
      expect([host, httpStatus, error]).toEqual([host, null, "The endpoint's address is not allowed"]);
    }
    expect(canary.connections).toBe(0);
    await canary.stop();
  });

  test('a service of the platform is refused with every range opened, with the message of a closed port', async () => {
    const canary = await Canary.start('::');
    const { port } = canary;
    const open = sender({ ranges: ['0.0.0.0/0', '::/0'], services: [{ address: 'local', port, isInner: true }] });
    const words = 'The endpoint could not be reached';
    for (const host of [
      '127.0.0.1',
      '127.9.9.9',
      'localhost',
      '0.0.0.0',
      '2130706433',
      '[::1]',
      '[::ffff:127.0.0.1]',
    ]) {
      expect([host, (await open.send(request(`http://${host}:${port}/`))).error]).toEqual([host, words]);
    }
    expect(canary.connections).toBe(0);
    expect((await open.send(request('http://127.0.0.1:1/'))).error).toBe(words);
    await canary.stop();
  });

  test('a sandbox is refused with every range opened, in every spelling and with the message of a closed port', async () => {
    const canary = await Canary.start('::');
    const { port } = canary;
    const open = sender({ ranges: ['0.0.0.0/0', '::/0'], networks: ['10.99.0.0/20', '127.7.0.0/16'] });
    const words = 'The endpoint could not be reached';
    const spellings = [
      ...['127.7.0.9', '2131165193', '0x7f070009', '[::ffff:127.7.0.9]', '[::127.7.0.9]', '[64:ff9b::127.7.0.9]'],
      ...['[2002:7f07:9::1]', '10.99.15.254'],
    ];
    for (const host of spellings) {
      expect([host, (await open.send(request(`http://${host}:${port}/`))).error]).toEqual([host, words]);
    }
    expect(canary.connections).toBe(0);
    expect((await open.send(request(`http://127.8.0.9:${port}/`))).error).not.toBe(words);
    expect(canary.connections).toBe(1);
    await canary.stop();
  });

  test('a name is looked up for each connection, and a later closed address is not connected to', async () => {
    const [canary, names] = await Promise.all([Canary.start('127.0.0.2'), NameServer.start('127.0.0.1')]);
    const url = new URL(receiver.url);
    url.hostname = 'changing.example.com';
    const one = sender({ ranges: ['127.0.0.1/32'], nameservers: [names.address] });
    const before = receiver.received.length;
    expect((await one.send(request(url.href))).error).toBeNull();
    expect(receiver.received).toHaveLength(before + 1);
    names.answer = '127.0.0.2';
    url.port = `${canary.port}`;
    expect((await one.send(request(url.href))).error).toBe("The endpoint's address is not allowed");
    expect(names.asked).toBeGreaterThanOrEqual(2);
    expect(canary.connections).toBe(0);
    await Promise.all([canary.stop(), names.stop()]);
  });

  test('a redirect is a failure and is not followed, and a proxy of the environment is not used', async () => {
    const canary = await Canary.start('127.0.0.1');
    const target = `http://127.0.0.1:${canary.port}/`;
    const variables = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'ALL_PROXY'];
    for (const name of variables) process.env[name] = target;
    try {
      const one = sender({ ranges: loopback });
      for (const status of [301, 302, 303, 307, 308]) {
        const redirecting = await WebhookReceiver.start(answerWith(status, { location: target }));
        const { httpStatus, error } = await one.send(request(redirecting.url));
        expect([httpStatus, error]).toEqual([status, `The endpoint answered ${status}; redirects are not followed`]);
        await redirecting.stop();
      }
    } finally {
      for (const name of variables) delete process.env[name];
    }
    expect(canary.connections).toBe(0);
    await canary.stop();
  });

  test('a name without an address is a failure', async () => {
    const outcome = await sender({ nameservers: ['127.0.0.1:1'] }).send(request('http://nothing.example.com/'));
    expect(outcome.error).toBe("The endpoint's name could not be resolved");
  });
});

describe('hostile endpoints', () => {
  const drip = (first: string) => (socket: net.Socket) => {
    socket.write(first);
    const timer = setInterval(() => socket.write('a'), 50);
    socket.on('close', () => clearInterval(timer));
  };
  const ok = 'HTTP/1.1 200 OK\r\n';
  const timedOut = 'The endpoint did not answer within 1 seconds';
  test.each<[string, (socket: net.Socket) => void, string | null]>([
    ['one that never answers', () => {}, timedOut],
    ['one whose headers drip', drip(`${ok}x: `), timedOut],
    ['one whose body drips', drip(`${ok}content-length: 60000\r\n\r\n`), timedOut],
    ['one that closes at once', (socket) => socket.destroy(), 'The endpoint closed the connection'],
    [
      'one that closes in the middle of the reply',
      (socket) =>
        void socket.write(`${ok}content-length: 100\r\n\r\nabc`, () => setTimeout(() => socket.destroy(), 20)),
      'The endpoint closed the connection',
    ],
    [
      'one that speaks no HTTP',
      (socket) => void socket.write('220 mail ESMTP\r\n'),
      'The endpoint did not answer in HTTP',
    ],
    [
      'one with headers without end',
      (socket) => void socket.write(`${ok}${'x: y\r\n'.repeat(10_000)}`),
      "The headers of the endpoint's reply are too large",
    ],
    [
      'one with interim replies without end',
      (socket) => void socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000)),
      'The exchange with the endpoint failed',
    ],
  ])('%s', async (_name, onConnection, error) => {
    const url = await rawServer((socket) => {
      socket.once('data', () => onConnection(socket));
    });
    const timeoutSeconds = error === timedOut ? 1 : 30;
    expect((await sender({ ranges: loopback }).send(request(url, timeoutSeconds))).error).toBe(error);
  });

  test('an endless body is cut off; the status counts, and 4 KiB are kept', async () => {
    let written = 0;
    const url = await rawServer((socket) => {
      socket.once('data', () => {
        socket.write(`${ok}transfer-encoding: chunked\r\n\r\n`);
        const chunk = `4000\r\n${'b\0'.repeat(0x2000)}\r\n`;
        const pump = () => {
          while (!socket.destroyed && socket.write(chunk)) written += chunk.length;
        };
        socket.on('drain', pump);
        pump();
      });
    });
    const outcome = await sender({ ranges: loopback }).send(request(url, 20));
    expect(outcome).toMatchObject({ httpStatus: 200, error: null, reply: 'b\ufffd'.repeat(2048) });
    expect(written).toBeGreaterThan(0);
  });

  test('text of an endpoint is only in the reply, and Retry-After is read', async () => {
    const busy = await WebhookReceiver.start(answerWith(503, { 'retry-after': '7' }, 'SECRET'));
    const outcome = await sender({ ranges: loopback }).send(request(busy.url));
    expect(outcome).toMatchObject({
      httpStatus: 503,
      error: 'The endpoint answered 503',
      reply: 'SECRET',
      retryAfterMs: 7000,
    });
    await busy.stop();
  });
});

describe('TLS', () => {
  test('a connection over which a server goes on sending a cancelled body is closed', async () => {
    const { ca, key, cert } = await trusted();
    const connections: { isClosed: boolean }[] = [];
    const server = tls.createServer({ key, cert, ALPNProtocols: ['h2'] }, (socket) => {
      const connection = { isClosed: false };
      connections.push(connection);
      socket.on('error', () => {});
      socket.on('close', () => {
        connection.isClosed = true;
      });
      socket.write(frame('settings', 0, Buffer.alloc(0)));
      // The first stream gets a body without end. Streams of later requests get a whole reply.
      let streamId = 1;
      onHttp2Request(socket, (requestedId) => {
        streamId = requestedId + 2;
        socket.write(frame('headers', requestedId, status200, endHeaders | (requestedId > 1 ? endStream : 0)));
      });
      const piece = frame('data', 1, Buffer.alloc(16_000));
      const pump = () => {
        if (socket.destroyed) return;
        if (streamId === 1 || socket.write(piece)) setImmediate(pump);
        else socket.once('drain', pump);
      };
      pump();
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const one = sender({ ranges: loopback, ca, maxBytesPerSecond: 50_000 });
    // The requests keep the connection from being closed as an idle one.
    await until(async () => {
      await one.send(request(`https://localhost:${readPort(server)}/`, 10));
      return connections.some(({ isClosed }) => isClosed);
    });
  });

  test("only certificates of the operator's CA are accepted, and HTTP/2 is used if it is offered", async () => {
    const { ca, key, cert } = await trusted();
    const versions: string[] = [];
    const server = http2.createSecureServer({ key, cert, allowHTTP1: true }, (received, response) => {
      versions.push(received.httpVersion);
      response.end('ok');
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `https://localhost:${readPort(server)}/`;
    expect((await sender({ ranges: loopback, ca }).send(request(url))).error).toBeNull();
    expect(versions).toEqual(['2.0']);
    const refused = await sender({ ranges: loopback }).send(request(url));
    expect(refused.error).toMatch(/^The endpoint's TLS is not accepted \(/);
    const otherName = await sender({ ranges: loopback, ca }).send(request(url.replace('localhost', '127.0.0.1')));
    expect(otherName.error).toMatch(/^The endpoint's TLS is not accepted \(/);
    expect(versions).toHaveLength(1);
  });
});

/** A certificate for `localhost`, with its authority. */
async function trusted() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'webhook-ca-'));
  const made = await openLocalCa(dir);
  const { key, cert } = await issueLeaf(made, 'localhost');
  fs.rmSync(dir, { recursive: true });
  return { ca: made.certificatePem, key, cert };
}

/** The head of a reply in HPACK's static table. */
const status200 = Buffer.from([0x88]);
const headersType = 1;

/** Calls back with the stream of each request of a client. */
function onHttp2Request(socket: net.Socket, listener: (streamId: number) => void): void {
  let pending = Buffer.alloc(0);
  let skipped = preface.length;
  socket.on('data', (data: Buffer) => {
    pending = Buffer.concat([pending, data]);
    for (let end = skipped + 9; pending.length >= end; end = skipped + 9) {
      end += pending.readUIntBE(skipped, 3);
      if (pending.length < end) return;
      if (pending[skipped + 3] === headersType) listener(pending.readUInt32BE(skipped + 5));
      pending = pending.subarray(end);
      skipped = 0;
    }
  });
}
