import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import WebSocket, { WebSocketServer } from 'ws';
import { Filesystem, Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { RawConnection, type Reply, send } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { listening, startHttpUpstream, startRawUpstream } from './upstream-server.ts';

const id = 'sbx-agent';
/** The address of the sandbox. It is neither 127.0.0.1 nor ::1, so it does not reach servers that listen on those. */
const address = '127.0.0.9';
const agentToken = 'token-of-the-agent';
const platformToken = 'token-of-the-platform';
let started: StartedGateway;
let dir: string;
let agent: ChildProcess;
let agentPort: number;

beforeAll(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'gateway-agent-'));
  started = await startGateway();
  agentPort = await freePort();
  agent = spawn(process.execPath, [path.join(import.meta.dirname, '../../agent/dist/agent.cjs')], {
    env: {
      PATH: process.env.PATH,
      HOME: dir,
      AGENT_PORT: String(agentPort),
      AGENT_LISTEN: address,
      AGENT_SANDBOX_ID: id,
      AGENT_ACCESS_TOKEN: agentToken,
      AGENT_PLATFORM_TOKEN: platformToken,
      AGENT_COMMAND_TAIL: path.join(dir, 'tail'),
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  started.routes.set({ sandboxId: id, address, agentPort, secure: true, accessToken: agentToken });
  await until(async () => (await call('/health')).status === 200);
});

afterAll(async () => {
  const ended = once(agent, 'exit');
  agent.kill();
  await ended;
  await started.stop();
  rmSync(dir, { recursive: true });
});

function call(
  target: string,
  options: { method?: string; headers?: Record<string, string>; body?: Buffer } = {},
): Promise<Reply> {
  return send({ port: started.port, host: formatHost(id), path: target, ...options });
}

/** Every way to call the agent through the gateway; `secure` means over TLS with the local CA. */
const transports = ['connect', 'grpc-web', 'grpc'].flatMap((protocol) => [
  { protocol, httpVersion: '2' as const, secure: false },
  { protocol, httpVersion: '2' as const, secure: true },
  ...(protocol === 'grpc' ? [] : [{ protocol, httpVersion: '1.1' as const, secure: true }]),
]);

function createTransport({ protocol, httpVersion, secure }: (typeof transports)[number], token = agentToken) {
  const connectAs = { servername: formatHost(id), ca: started.ca.certificatePem };
  const options = {
    // Its name has no DNS entry. The gateway uses the Host field.
    baseUrl: `${secure ? 'https' : 'http'}://${formatHost(id)}:${started.port}`,
    nodeOptions: { ...(secure && connectAs), lookup: loopback },
    interceptors: [
      (next) => (request) => {
        request.header.set('X-Access-Token', token);
        return next(request);
      },
    ] as import('@connectrpc/connect').Interceptor[],
  };
  if (protocol === 'grpc') return createGrpcTransport({ ...options });
  const create = protocol === 'connect' ? createConnectTransport : createGrpcWebTransport;
  return create({ ...options, httpVersion } as Parameters<typeof create>[0]);
}

const loopback: net.LookupFunction = (_name, options, done) => {
  if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }]);
  else done(null, '127.0.0.1', 4);
};

test.each(transports)('code runs over $protocol, HTTP/$httpVersion, TLS: $secure', async (transport) => {
  const client = createClient(Process, createTransport(transport));
  const events: string[] = [];
  let output = '';
  for await (const { event } of client.start({
    process: { cmd: '/bin/sh', args: ['-c', 'echo out; echo err >&2; exit 3'] },
  })) {
    const inner = event?.event;
    events.push(String(inner?.case));
    if (inner?.case === 'data' && inner.value.output.case) output += Buffer.from(inner.value.output.value).toString();
    if (inner?.case === 'end') expect(inner.value.exitCode).toBe(3);
  }
  expect(events[0]).toBe('start');
  expect(events.at(-1)).toBe('end');
  expect(output).toMatch(/out\n/);
  expect(output).toMatch(/err\n/);
});

test.each(transports)('errors keep their code over $protocol, HTTP/$httpVersion, TLS: $secure', async (transport) => {
  const failure = async (token: string) => {
    const client = createClient(Filesystem, createTransport(transport, token));
    return client.stat({ path: path.join(dir, 'missing') }).then(
      () => null,
      (error) => ConnectError.from(error).code,
    );
  };
  expect(await failure(agentToken)).toBe(Code.NotFound);
  expect(await failure('wrong')).toBe(Code.Unauthenticated);
});

test('a file of 20 MB is uploaded and downloaded unchanged', async () => {
  const content = randomBytes(20_000_000);
  const target = path.join(dir, 'up.bin');
  const head = `--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n${target}\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n`;
  const body = Buffer.concat([Buffer.from(head), content, Buffer.from('\r\n--b--\r\n')]);
  const headers = { 'x-access-token': agentToken, 'content-type': 'multipart/form-data; boundary=b' };
  const uploaded = await call('/upload', { method: 'POST', headers, body });
  expect([uploaded.status, uploaded.text]).toEqual([200, `uploaded: ${target}`]);
  expect(readFileSync(target).equals(content)).toBe(true);
  const downloaded = await call(`/download${target}`, { headers: { 'x-access-token': agentToken } });
  expect(downloaded.body.equals(content)).toBe(true);
  const part = await call(`/download${target}`, { headers: { 'x-access-token': agentToken, range: 'bytes=100-199' } });
  expect([part.status, part.body.equals(content.subarray(100, 200))]).toEqual([206, true]);
});

test('the agent checks tokens and signatures itself', async () => {
  const target = path.join(dir, 'up.bin');
  expect((await call(`/download${target}`)).status).toBe(401);
  const hash = createHash('sha256').update(`${target}:read:root:${agentToken}`).digest('base64').replace(/=+$/, '');
  const signed = await call(`/download${target}?signature=${encodeURIComponent(`v1_${hash}`)}`, { method: 'HEAD' });
  expect(signed.status).toBe(200);
});

test('the paths of the platform are reachable only for the platform', async () => {
  const headers = { 'x-platform-token': platformToken };
  const direct = await fetch(`http://${address}:${agentPort}/platform/state`, { headers });
  expect(direct.status).toBe(200);
  const through = await call('/platform/state', { headers });
  expect([through.status, through.json.code]).toEqual([404, 'not_found']);
});

describe.each(['127.0.0.1', '::1'])('a server that listens only on %s', (loopbackAddress) => {
  const near = 'sbx-near';

  beforeAll(() => {
    started.routes.set({ sandboxId: near, address, agentPort, platformToken });
  });

  test('gets requests, replies and WebSockets, and keeps its connections', async () => {
    const body = randomBytes(3_000_000);
    const server = await startHttpUpstream((request, response) => request.pipe(response), loopbackAddress);
    const sockets = new WebSocketServer({ server: server.server });
    sockets.on('connection', (socket) => socket.on('message', (message) => socket.send(message)));
    const host = formatHost(near, server.port);
    try {
      for (const method of ['POST', 'PUT']) {
        const reply = await send({
          port: started.port,
          host,
          method,
          body,
          headers: { 'content-length': body.length },
        });
        expect([reply.status, reply.body.equals(body)]).toEqual([200, true]);
      }
      expect(server.accepted()).toBe(1);
      const socket = new WebSocket(`ws://127.0.0.1:${started.port}/`, { headers: { host } });
      await once(socket, 'open');
      socket.send('hello');
      expect(String((await once(socket, 'message'))[0])).toBe('hello');
      socket.close();
      await once(socket, 'close');
    } finally {
      sockets.close();
      await server.stop();
    }
  });

  test('gets gRPC calls', async () => {
    const grpc = http2.createServer();
    grpc.on('stream', (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.pipe(stream);
    });
    const server = await listening(grpc as unknown as net.Server, loopbackAddress, 0);
    const session = http2.connect(`http://127.0.0.1:${started.port}`);
    try {
      const headers = {
        ':method': 'POST',
        ':authority': formatHost(near, server.port),
        'content-type': 'application/grpc',
      };
      const call = session.request(headers);
      let trailers: http2.IncomingHttpHeaders = {};
      call.on('trailers', (fields) => {
        trailers = fields;
      });
      call.end('a message');
      expect(await text(call)).toBe('a message');
      expect(trailers['grpc-status']).toBe('0');
    } finally {
      session.destroy();
      await server.stop();
    }
  });

  test('that breaks its reply off breaks the reply to the client', async () => {
    const server = await startRawUpstream((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart', () => socket.resetAndDestroy());
      });
    }, loopbackAddress);
    const client = new RawConnection(started.port);
    client.write(`GET / HTTP/1.1\r\nHost: ${formatHost(near, server.port)}\r\n\r\n`);
    await client.closed();
    expect(client.received).toMatch(/200 OK[\s\S]*part$/);
    await server.stop();
  });

  test('that closes without a reply is another error than a port without a server', async () => {
    const server = await startRawUpstream((socket) => socket.once('data', () => socket.end()), loopbackAddress);
    const code = async () =>
      (await send({ port: started.port, host: formatHost(near, server.port), method: 'POST' })).json.code;
    expect(await code()).toBe('sandbox_no_reply');
    await server.stop();
    expect(await code()).toBe('sandbox_port_closed');
  });

  test('is reached only with the token of the platform', async () => {
    const server = await startHttpUpstream((_request, response) => response.end('secret'), loopbackAddress);
    const direct = new RawConnection(agentPort, net.connect({ port: agentPort, host: address }));
    direct.write(`CONNECT localhost:${server.port} HTTP/1.1\r\nHost: a\r\nX-Platform-Token: ${agentToken}\r\n\r\n`);
    await direct.closed();
    expect(direct.received).toMatch(/^HTTP\/1\.1 404 /);
    started.routes.set({
      sandboxId: 'sbx-other',
      address: '127.0.0.9',
      agentPort,
      platformToken: 'of another sandbox',
    });
    const reply = await send({ port: started.port, host: formatHost('sbx-other', server.port) });
    expect([reply.status, reply.json.code]).toEqual([502, 'sandbox_port_closed']);
    expect(server.accepted()).toBe(0);
    await server.stop();
  });
});
