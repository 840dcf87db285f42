import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createHttpServer } from '../../clients/mcp/src/http-server.ts';
import { RequestBodies, type RequestRefused } from '../../clients/mcp/src/request-bodies.ts';
import { until } from '../support/until.ts';

// Anybody who reaches the MCP server can send it requests, with an invented key.

const good = `spk_${'a'.repeat(49)}`;
const invented = `spk_${'b'.repeat(49)}`;
const servers: http.Server[] = [];
let url: URL;
/** The keys that the platform was asked about. */
let asked: string[];
let platform: http.RequestListener;

beforeEach(async () => {
  asked = [];
  platform = (request, reply) => reply.writeHead(request.headers['x-api-key'] === good ? 200 : 401).end('{}');
  const apiUrl = await listen(
    http.createServer((request, reply) => {
      asked.push(String(request.headers['x-api-key']));
      platform(request, reply);
    }),
  );
  url = new URL('/mcp', await listen(createHttpServer({ apiUrl, allowedOrigins: [] })));
});
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(server: http.Server): Promise<string> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const initialize = (padding = 0) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
    params: {
      ...{ protocolVersion: '2025-06-18', capabilities: {} },
      clientInfo: { name: 'raw', version: 'x'.repeat(padding + 1) },
    },
  });

async function post(apiKey: string, body: string): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const reply = await fetch(url, { method: 'POST', headers: { ...headers, 'x-api-key': apiKey }, body });
  return { status: reply.status, text: await reply.text() };
}

/** Sends a head and a part of the body, and reads the reply until the server closes the connection. */
async function postPart(apiKey: string, part: number, length = 5_000_000): Promise<string> {
  const socket = net.connect({ port: Number(url.port), host: url.hostname });
  const head = `POST /mcp HTTP/1.1\r\nhost: x\r\nx-api-key: ${apiKey}\r\ncontent-type: application/json\r\n`;
  socket.write(`${head}content-length: ${length}\r\n\r\n${' '.repeat(part)}`);
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.on('error', () => {});
  await once(socket, 'close');
  return answer;
}

test('a text that cannot be a key is refused before its body is read', async () => {
  expect(await postPart('key', 10)).toContain('HTTP/1.1 401');
  expect(asked).toEqual([]);
});

test('a long body of an invented key is refused after its first 64 KiB', async () => {
  expect(await postPart(invented, 70_000)).toContain('HTTP/1.1 401');
  expect(asked).toEqual([invented]);
});

test('the second spelling of a key is accepted', async () => {
  expect((await post(`e2b_${Buffer.from(good).toString('hex')}`, initialize())).status).toBe(200);
});

test('short and long requests of a valid key are answered, and only for the long one the platform is asked first', async () => {
  expect((await post(good, initialize())).status).toBe(200);
  expect(asked).toEqual([]);
  const { status, text } = await post(good, initialize(3_000_000));
  expect([status, text]).toEqual([200, expect.stringContaining('protocolVersion')]);
  expect(asked).toEqual([good]);
});

test('while the platform cannot check keys, a long request is refused as temporary', async () => {
  platform = (_, reply) => void reply.writeHead(429).end();
  expect(await postPart(good, 70_000)).toContain('HTTP/1.1 503');
});

test('a body that is too long, and one that is not JSON, are refused', async () => {
  expect(await postPart(good, 10, 5_300_000)).toContain('HTTP/1.1 413');
  const { status, text } = await post(good, '{"half":');
  expect([status, JSON.parse(text).error.code]).toEqual([400, -32700]);
});

test('bodies that are held at the same time have a limit together, and count until their requests are closed', async () => {
  const limits = { bodyBytes: 1000, unprovenBytes: 1000, totalBytes: 1500 };
  const bodies = new RequestBodies(limits, async () => {});
  const answers: http.ServerResponse[] = [];
  const refusals: number[] = [];
  const address = await listen(
    http.createServer((request, response) => {
      bodies.read(request, response, good).then(
        () => answers.push(response),
        (error) => {
          refusals.push((error as RequestRefused).status);
          response.writeHead(503).end();
        },
      );
    }),
  );
  const send = () => fetch(address, { method: 'POST', body: 'x'.repeat(900) }).then((reply) => reply.text());
  const first = send();
  await until(() => answers.length === 1);
  await send();
  expect([answers.length, refusals]).toEqual([1, [503]]);
  const closed = once(answers[0]!, 'close');
  answers[0]!.end();
  await Promise.all([first, closed]);
  const next = send();
  await until(() => answers.length === 2);
  answers[1]!.end();
  await next;
});
