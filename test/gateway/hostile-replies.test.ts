import { once } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { hostOf, type StartedGateway, startGateway } from './started-gateway.ts';
import { startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const HOST = hostOf('sbx-one');
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

/** One request over HTTP/2. Resolves when the stream is closed, however that came; rejects after 5 s. */
async function callHttp2(headers: http2.OutgoingHttpHeaders = {}): Promise<Outcome> {
  const session = http2.connect(`http://${HOST}`, {
    createConnection: () => net.connect(started.port, '127.0.0.1'),
  });
  session.on('error', () => undefined);
  stops.push(() => session.destroy());
  const stream = session.request({ ':authority': HOST, ':path': '/', ...headers });
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
  const closed = once(stream, 'close');
  const late = AbortSignal.timeout(5000);
  const isClosed = await Promise.race([closed.then(() => true), once(late, 'abort').then(() => false)]);
  if (!isClosed) throw new Error(`no end within 5 s: ${JSON.stringify(outcome)}`);
  outcome.resetCode = stream.rstCode!;
  return outcome;
}

const SINGLE =
  'Age: 1\r\nAge: 2\r\nRetry-After: 1\r\nRetry-After: 2\r\nX-Content-Type-Options: a\r\nX-Content-Type-Options: b\r\n';

test.each([
  ['doubled fields that may be there once', `HTTP/1.1 200 OK\r\n${SINGLE}Content-Length: 2\r\n\r\nok`],
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
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${SINGLE}X-Sum: 1\r\nHTTP2-Settings: a\r\n\r\n`,
  );
  expect(await callHttp2()).toMatchObject({
    status: 200,
    body: 'ok',
    resetCode: 0,
    trailers: { age: '1', 'retry-after': '1', 'x-sum': '1' },
  });
});
