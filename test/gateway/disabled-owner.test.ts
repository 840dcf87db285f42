import { type EventEmitter, once } from 'node:events';
import http from 'node:http';
import http2 from 'node:http2';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { WebSocket, WebSocketServer } from 'ws';
import { until } from '../support/until.ts';
import { type Reply, send } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream } from './upstream-server.ts';

const agentToken = 'token-of-sbx-one';
const id = 'sbx-one';
const publicPort = 3000;
const protectedPort = 3001;
let started: StartedGateway;
let sandbox: Awaited<ReturnType<typeof startHttpUpstream>>;

beforeAll(async () => {
  started = await startGateway();
  sandbox = await startHttpUpstream((request, response) => {
    response.write('begun ');
    if (request.url !== '/endless') response.end('and ended');
  });
  new WebSocketServer({ server: sandbox.server }).on('connection', (socket) => socket.on('error', () => undefined));
});
beforeEach(() => {
  const tcp = { servicePort: sandbox.port, protocol: 'TCP' as const };
  const ports = [
    { ...tcp, port: publicPort, isProtected: false },
    { ...tcp, port: protectedPort, isProtected: true },
  ];
  const place = { address: sandbox.address, agentPort: sandbox.port + 1 };
  started.routes.set({ ...place, sandboxId: id, secure: true, accessToken: agentToken, isLocked: false, ports });
});
afterAll(async () => {
  await started.stop();
  await sandbox.stop();
});

const headers = { 'x-access-token': agentToken };
const call = (port?: number): Promise<Reply> => send({ port: started.port, host: formatHost(id, port), headers });
const lock = () => started.routes.set({ sandboxId: id, isLocked: true });

test('only public ports answer', async () => {
  lock();
  expect((await call(publicPort)).text).toBe('begun and ended');
  for (const port of [undefined, protectedPort, 9999]) {
    const reply = await call(port);
    expect([port, reply.status, reply.json.code]).toEqual([port, 403, 'owner_disabled']);
  }
  started.routes.set({ sandboxId: id, isLocked: false });
  expect((await call(protectedPort)).text).toBe('begun and ended');
});

async function openSocket(port: number): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${started.port}/`, {
    headers: { ...headers, host: formatHost(id, port) },
  });
  socket.on('error', () => undefined);
  await once(socket, 'open');
  return socket;
}

async function openReply(port: number): Promise<http.IncomingMessage> {
  const options = { port: started.port, path: '/endless', headers: { ...headers, host: formatHost(id, port) } };
  const [reply] = (await once(http.get(options), 'response')) as [http.IncomingMessage];
  reply.on('error', () => undefined);
  reply.resume();
  return reply;
}

/** `once` would reject at an error. */
const waitForClose = (emitter: EventEmitter) => new Promise((resolve) => emitter.once('close', resolve));

test('exchanges with private ports end at once, those with public ports continue', async () => {
  const session = http2.connect(`http://127.0.0.1:${started.port}`);
  session.on('error', () => undefined);
  const stream = session.request({ ':path': '/endless', ':authority': formatHost(id, protectedPort), ...headers });
  stream.on('error', () => undefined);
  stream.resume();
  await once(stream, 'response');
  const [publicSocket, privateSocket] = [await openSocket(publicPort), await openSocket(protectedPort)];
  const [publicReply, privateReply] = [await openReply(publicPort), await openReply(protectedPort)];
  const ends = [privateSocket, privateReply, stream].map(waitForClose);
  lock();
  await Promise.all(ends);
  expect([publicSocket.readyState, publicReply.destroyed, session.destroyed]).toEqual([WebSocket.OPEN, false, false]);
  publicSocket.terminate();
  publicReply.destroy();
  session.destroy();
});

test('exchanges also end when the change is noticed only after an interruption', async () => {
  const socket = await openSocket(protectedPort);
  const closed = waitForClose(socket);
  started.routes.setLive(false);
  started.routes.setSilently({ sandboxId: id, isLocked: true });
  started.routes.setLive(true);
  await closed;
  expect(socket.readyState).toBe(WebSocket.CLOSED);
});

test('a lookup that is outdated by a change does not keep a request open', async () => {
  const sandboxId = 'sbx-new';
  const ports = [{ servicePort: sandbox.port, protocol: 'TCP' as const, port: protectedPort, isProtected: true }];
  started.routes.set({ sandboxId, address: sandbox.address, accessToken: agentToken, ports });
  const gate = Promise.withResolvers<void>();
  started.routes.gate = gate.promise;
  const host = formatHost(sandboxId, protectedPort);
  const request = http.get({ port: started.port, path: '/endless', headers: { ...headers, host } });
  request.on('response', (reply) => reply.on('error', () => undefined).resume());
  request.on('error', () => undefined);
  const ended = waitForClose(request);
  await until(async () => started.routes.lookups.includes(sandboxId));
  started.routes.set({ sandboxId, isLocked: true });
  gate.resolve();
  await ended;
  expect(request.destroyed).toBe(true);
});
