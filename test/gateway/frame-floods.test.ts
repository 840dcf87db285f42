import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { buffer } from 'node:stream/consumers';
import tls from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { until } from '../support/until.ts';
import { RawConnection } from './client.ts';
import { FloodingClient, floodKinds } from './floods/flooding-clients.ts';
import { endHeaders, endStream, frame, preface, requestFrame } from './floods/http2-frames.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const sandboxHost = formatHost('sbx-reading');
const rate = 256 * 1024;
const bodyBytes = 16 * 2 ** 20;
/** GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 §6.8 and 7). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: a frame has such bytes
const calm = /\x00\x00\x08\x07\x00{5}[\s\S]{4}\x00\x00\x00\x0b/;
const start = Buffer.concat([preface, frame('settings', 0, Buffer.alloc(0))]);

let started: StartedGateway;
let upstream: UpstreamServer;
const ends: (() => void)[] = [];

beforeAll(async () => {
  upstream = await startHttpUpstream((request, response) => {
    let bytes = 0;
    request.on('data', (piece) => {
      bytes += piece.length;
    });
    request.on('end', () => response.end(request.url === '/big' ? Buffer.alloc(bodyBytes) : String(bytes)));
  });
});

afterEach(async () => {
  for (const end of ends.splice(0)) end();
  await started.stop();
});

afterAll(() => upstream.stop());

async function begin(trustProxy = false): Promise<void> {
  started = await startGateway({ limits: { maxOverheadBytesPerSecond: rate }, trustProxy });
  const { address, port: agentPort } = upstream;
  started.routes.set({ sandboxId: 'sbx-reading', status: 'running', address, agentPort });
}

/** The gateway's answer to the first request of a new connection, up to the end of the answer or of the connection. */
async function answerTo(localAddress: string): Promise<string> {
  const socket = net.connect({ port: started.port, host: '127.0.0.1', localAddress });
  const connection = new RawConnection(started.port, socket);
  connection.write(Buffer.concat([start, requestFrame(1, sandboxHost, 'GET', endHeaders | endStream)]));
  // The upstream returns how much it got: DATA, one byte, end of the stream.
  const isAnswered = () => connection.received.includes('\0\0\x01\0\x01\0\0\0\x010');
  await until(() => isAnswered() || connection.isClosed);
  connection.destroy();
  return isAnswered() ? 'answered' : calm.test(connection.received) ? 'refused' : connection.received;
}

function flood(name: string): FloodingClient {
  const client = new FloodingClient(
    { ...floodKinds.find((each) => each.name === name)!, connections: 1 },
    started.port,
  );
  ends.push(() => client.stop());
  client.start();
  return client;
}

test.each(['PING', 'PRIORITY', 'WINDOW_UPDATE', 'header lists too large', 'rapid reset', 'empty CONTINUATION'])(
  'a client that floods with %s loses its HTTP/2 connections and gets no others until it is quiet',
  async (name) => {
    await begin();
    expect(await answerTo('127.0.0.1')).toBe('answered');
    const client = flood(name);
    await until(() => client.closed > 0);
    await until(async () => (await answerTo('127.0.0.1')) === 'refused');
    expect(await answerTo('127.0.0.2')).toBe('answered');
    client.stop();
    expect(started.log.join('')).toContain('a flood of HTTP/2 frames');
  },
  120_000,
);

test('a client that was blocked is served again', async () => {
  await begin();
  const connection = new RawConnection(started.port);
  const windowUpdates = Buffer.concat(Array(80_000).fill(frame('windowUpdate', 0, Buffer.from([0, 0, 0, 1]))));
  connection.write(Buffer.concat([start, windowUpdates]));
  await connection.closed();
  await until(async () => (await answerTo('127.0.0.1')) === 'answered');
}, 120_000);

test('the connection of a trusted proxy is not ended', async () => {
  await begin(true);
  const connection = new RawConnection(started.port);
  const windowUpdates = Buffer.concat(Array(80_000).fill(frame('windowUpdate', 0, Buffer.from([0, 0, 0, 1]))));
  const request = requestFrame(1, sandboxHost, 'GET', endHeaders | endStream);
  connection.write(Buffer.concat([start, windowUpdates, request]));
  await connection.expect('\0\0\x01\0\x01\0\0\0\x010');
  expect(await answerTo('127.0.0.1')).toBe('answered');
  connection.destroy();
});

test.each([
  ['without TLS', false],
  ['with TLS', true],
])(
  'large bodies and many requests %s are no flood',
  async (_how, secure) => {
    await begin();
    const session = http2.connect(`${secure ? 'https' : 'http'}://${sandboxHost}:${started.port}`, {
      createConnection: () =>
        secure
          ? tls.connect({
              ...{ port: started.port, host: '127.0.0.1', servername: sandboxHost },
              ...{ ca: started.ca.certificatePem, ALPNProtocols: ['h2'] },
            })
          : net.connect(started.port, '127.0.0.1'),
    });
    session.on('error', () => undefined);
    ends.push(() => session.destroy());
    const call = async (path: string, body = Buffer.alloc(0)) => {
      const stream = session.request({ ':path': path, ':method': 'POST', 'x-large': 'x'.repeat(2000) });
      const answered = once(stream, 'response');
      stream.end(body);
      const [{ ':status': status }] = await answered;
      return { status, text: await buffer(stream) };
    };
    const upload = await call('/', Buffer.alloc(bodyBytes));
    expect(String(upload.text)).toBe(String(bodyBytes));
    const download = await call('/big');
    expect(download.text.length).toBe(bodyBytes);
    // More bytes of header fields than the rate and its burst allow.
    for (let i = 0; i < 10; i++) {
      const replies = await Promise.all(Array.from({ length: 50 }, () => call('/')));
      expect(replies.filter(({ status }) => status === 200)).toHaveLength(50);
    }
    expect(started.log.join('')).not.toContain('a flood of HTTP/2 frames');
  },
  120_000,
);
