import { once } from 'node:events';
import fs from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { WebSocket, WebSocketServer } from 'ws';
import { SandboxAgents } from '../../../api/routes/sandboxes/exec/agents.ts';
import type { HostPlace } from '../../../db/hosts/hosts.ts';
import type { LastHopIdentity } from '../../../domain/hosts/last-hop.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { LastHopAuthority } from '../../../gateway/last-hop/authority.ts';
import type { Credential } from '../../../gateway/last-hop/credential.ts';
import { HostPlaces } from '../../../gateway/last-hop/host-places.ts';
import { computeProof, readJoinToken } from '../../../gateway/last-hop/join-token.ts';
import { LastHops } from '../../../gateway/last-hop/last-hops.ts';
import { checkIssued, makeKeyAndRequest } from '../../../gateway/last-hop/request.ts';
import { LastHopServer, type LastHopServerOptions } from '../../../gateway/last-hop/server.ts';
import { openTunnel } from '../../../gateway/last-hop/tunnel.ts';
import { showTunnels } from '../../../gateway/last-hop-metrics.ts';
import { RouteCache } from '../../../gateway/route-cache.ts';
import { platformToken, TestAgent } from '../../agent/support/agent.ts';
import { until } from '../../support/until.ts';
import { type RequestOptions, send } from '../client.ts';
import { MemoryRoutes } from '../memory-routes.ts';
import { formatHost, type StartedGateway, startGateway } from '../started-gateway.ts';
import { startHttpUpstream, startRawUpstream, type UpstreamServer } from '../upstream-server.ts';

/**
 * A gateway that reaches sandboxes only through the last hop of their host. No server listens at the address of the
 * gateway's own route, so a direct connection fails. The host's route has the sandbox's real address.
 */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'last-hop-'));
const logger = pino({ level: 'silent' });
const sandboxId = 'sbx-far' as SandboxId;
const nowhere = '127.255.0.9';
let authority: LastHopAuthority;
let stranger: LastHopAuthority;
const credentials = new Map<string, Credential>();
const revoked = new Set<string>();
const revocationListeners: (() => void)[] = [];
const revocations = {
  isRevoked: ({ role, name }: LastHopIdentity) => revoked.has(`${role} ${name}`),
  onChange: (listener: () => void) => void revocationListeners.push(listener),
};
const hostB: LastHopIdentity = { role: 'host', name: 'host-b' };
const gatewayA: LastHopIdentity = { role: 'gateway', name: 'gateway-a' };

let place: HostPlace;
let routesOfB: MemoryRoutes;
let end: { server: LastHopServer; port: number };
let gateway: StartedGateway;
let tunnels: LastHops;
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  authority = await LastHopAuthority.open(path.join(folder, 'ca'));
  stranger = await LastHopAuthority.open(path.join(folder, 'stranger'));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

beforeEach(async () => {
  place = { lastHopAddress: null, sandboxNetwork: '127.0.0.0/16', isLost: false };
  routesOfB = new MemoryRoutes();
  end = await startEnd();
  place.lastHopAddress = `127.0.0.1:${end.port}`;
  const credential = { current: await createCredential(gatewayA) };
  tunnels = new LastHops({ credential, revocations, places: places(), localHostId: () => 'host-a' });
  gateway = await startGateway({ tunnels });
  stops.push(() => gateway.stop());
});
afterEach(async () => {
  revoked.clear();
  revocationListeners.length = 0;
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

const places = () => new HostPlaces(async (hostId) => (hostId === 'host-b' ? { ...place } : null));

async function createCredential(
  identity: LastHopIdentity,
  { from = authority, lifetimeMs }: { from?: LastHopAuthority; lifetimeMs?: number } = {},
): Promise<Credential> {
  const name = `${identity.role} ${identity.name} ${from === authority} ${lifetimeMs}`;
  const known = credentials.get(name);
  if (known) return known;
  const { key, request } = await makeKeyAndRequest();
  const token = readJoinToken(from.joinToken(identity));
  const issuing =
    lifetimeMs === undefined ? from : await LastHopAuthority.open(path.join(folder, 'ca'), { lifetimeMs });
  const issued = await issuing.issue({ ...identity, request, proof: computeProof(token.key, request) }, false);
  if ('refusal' in issued) throw new Error(issued.refusal);
  const credential = { key, ...checkIssued(issued.certificate, key, token) };
  credentials.set(name, credential);
  return credential;
}

async function startEnd(
  options: Partial<LastHopServerOptions> = {},
  identity: LastHopIdentity = hostB,
  own?: Credential,
): Promise<{ server: LastHopServer; port: number }> {
  const current = own ?? (await createCredential(identity));
  const server = new LastHopServer({
    credential: { identity, current, onNewer: () => undefined },
    revocations,
    routes: new RouteCache(routesOfB, routesOfB, { shortTtlMs: 20 }),
    hosts: places(),
    logger,
    handshakeTimeoutMs: 60_000,
    ...options,
  });
  const { port } = await server.listen(0);
  stops.push(() => server.close(0));
  return { server, port };
}

/** Adds the sandbox to both sides' routes. */
function put(upstream: Pick<UpstreamServer, 'address' | 'port'>, ofB: object = {}): void {
  const common = { sandboxId, hostId: 'host-b', agentPort: upstream.port };
  routesOfB.set({ ...common, address: upstream.address, ...ofB });
  gateway.routes.set({ ...common, address: nowhere });
}

async function httpSandbox(): Promise<UpstreamServer> {
  const upstream = await startHttpUpstream(async (request, response) => {
    if (request.url === '/size') {
      let bytes = 0;
      for await (const chunk of request) bytes += chunk.length;
      response.end(String(bytes));
    } else if (request.url === '/big') response.end(Buffer.alloc(3_000_000, 'x'));
    else if (request.url === '/open') response.write('first');
    else response.end(`here ${request.headers.host}`);
  });
  stops.push(() => upstream.stop());
  put(upstream);
  return upstream;
}

const get = (path = '/', options: Partial<RequestOptions> = {}) =>
  send({ port: gateway.port, host: formatHost(sandboxId), path, ...options });

/** Also resolves when it ends with an error, at which `once` would reject. */
function waitForClose(socket: net.Socket): Promise<void> {
  socket.on('error', () => undefined);
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

/** The last hop's answer to a peer that sends raw bytes. Empty: it closes without an answer. */
async function rawTunnel(
  firstLine: string,
  options: tls.ConnectionOptions = {},
  { port = end.port, as = gatewayA }: { port?: number; as?: LastHopIdentity } = {},
): Promise<string> {
  const { key, certificate, authority: ca } = await createCredential(as);
  const socket = tls.connect({
    ...{ host: '127.0.0.1', port, key, cert: certificate, ca, checkServerIdentity: () => undefined },
    ...options,
  });
  let got = '';
  socket.on('data', (bytes) => {
    got += bytes;
  });
  const closed = waitForClose(socket);
  if (firstLine) socket.write(firstLine);
  await closed;
  return got;
}

test('requests reach a sandbox of another machine, with bodies of any size, on reused connections', async () => {
  const upstream = await httpSandbox();
  expect(await get()).toMatchObject({ status: 200, body: Buffer.from(`here ${formatHost(sandboxId)}`) });
  expect((await get('/big')).body.length).toBe(3_000_000);
  expect((await get('/size', { method: 'POST', body: Buffer.alloc(2_000_000) })).body.toString()).toBe('2000000');
  for (let more = 0; more < 10; more += 1) expect((await get()).status).toBe(200);
  // A connection that is idle for seconds, as on a busy machine, is closed.
  expect(upstream.accepted()).toBeLessThan(10);
});

test('WebSockets and their ends are forwarded', async () => {
  const upstream = await startHttpUpstream((_request, response) => response.end());
  stops.push(() => upstream.stop());
  const echoes = new WebSocketServer({ server: upstream.server });
  echoes.on('connection', (socket) =>
    socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary })),
  );
  put(upstream);
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/`, { headers: { host: formatHost(sandboxId) } });
  await once(socket, 'open');
  for (const size of [0, 1, 70_000, 2_000_000]) {
    socket.send(Buffer.alloc(size, 7));
    const [message] = (await once(socket, 'message')) as [Buffer];
    expect(message.equals(Buffer.alloc(size, 7))).toBe(true);
  }
  socket.close(4001, 'done');
  const [code] = await once(socket, 'close');
  expect(code).toBe(4001);
  await until(() => end.server.tunnelCount === 0);
});

test('gRPC is forwarded as HTTP/2 from end to end, with its trailers', async () => {
  const server = http2.createServer();
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.pipe(stream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => sockets.add(socket));
  stops.push(() => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    return closed;
  });
  put({ address: '127.0.0.1', port: (server.address() as net.AddressInfo).port });
  const session = http2.connect(`http://127.0.0.1:${gateway.port}`);
  // The gateway ends before it.
  session.on('error', () => undefined);
  stops.unshift(async () => session.destroy());
  for (let call = 0; call < 3; call++) {
    const stream = session.request({
      ...{ ':method': 'POST', ':path': '/x', ':authority': formatHost(sandboxId) },
      ...{ 'content-type': 'application/grpc', te: 'trailers' },
    });
    let trailers: http2.IncomingHttpHeaders = {};
    stream.on('trailers', (fields) => {
      trailers = fields;
    });
    stream.end('hello');
    let body = '';
    for await (const chunk of stream) body += chunk;
    expect([body, trailers['grpc-status']]).toEqual(['hello', '0']);
  }
  await gateway.stop();
  stops.splice(
    stops.findIndex((stop) => String(stop).includes('gateway.stop')),
    1,
  );
});

test('a server on another machine that listens only on loopback is reached, and a closed port is named', async () => {
  const agent = await TestAgent.start();
  stops.push(() => agent.stop());
  put({ address: '127.0.0.1', port: agent.port });
  gateway.routes.set({ sandboxId, platformToken });
  const server = await startHttpUpstream((_request, response) => response.end('on loopback'), '::1');
  const ask = () => get('/', { host: formatHost(sandboxId, server.port) });
  expect(await ask()).toMatchObject({ status: 200, text: 'on loopback' });
  await server.stop();
  expect((await ask()).json.code).toBe('sandbox_port_closed');
});

test('the API calls an agent of another machine', async () => {
  const upstream = await startHttpUpstream((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ run: null, path: request.url }));
  });
  stops.push(() => upstream.stop());
  put(upstream);
  const agents = new SandboxAgents(() => 'token', tunnels);
  const agent = { sandboxId, secretKeyNumber: 1, hostId: 'host-b', address: nowhere, port: upstream.port };
  expect(await agents.findExecution(agent)).toBeNull();
  routesOfB.set({ sandboxId, status: 'paused' });
  await expect(agents.findExecution(agent)).rejects.toThrow('does not answer');
});

test('sandboxes of this machine, and of hosts without a last hop, are reached directly', async () => {
  const upstream = await httpSandbox();
  for (const hostId of ['host-a', 'host-without', null]) {
    gateway.routes.set({ sandboxId, hostId, address: upstream.address });
    expect((await get()).status).toBe(200);
    expect(end.server.tunnelCount).toBe(0);
  }
});

test('a host serves only sandboxes that run on it, at addresses of its network', async () => {
  const upstream = await httpSandbox();
  for (const [why, ofB] of Object.entries({
    another: { hostId: 'host-c' },
    unplaced: { hostId: null },
    paused: { status: 'paused' },
    over: { status: 'failed' },
    outside: { address: '127.1.0.1' },
    name: { address: 'localhost' },
    none: { address: null },
  })) {
    put(upstream, ofB);
    expect([why, (await get()).status]).toEqual([why, 502]);
    expect(await rawTunnel(`SANDBOX/1 ${sandboxId} ${upstream.port} reply\n`)).toBe('n');
    put(upstream, { status: 'running', hostId: 'host-b' });
  }
  expect((await get()).status).toBe(200);
  expect(await rawTunnel('SANDBOX/1 sbx-unknown 80 reply\n')).toBe('n');
  expect(await rawTunnel(`SANDBOX/1 ${sandboxId} 1 reply\n`)).toBe('r');
  expect(await rawTunnel(`SANDBOX/1 ${sandboxId} 1 plain\n`)).toBe('');
});

test('a host that was declared lost serves no requests', async () => {
  const upstream = await httpSandbox();
  place.isLost = true;
  expect(await rawTunnel(`SANDBOX/1 ${sandboxId} ${upstream.port} reply\n`)).toBe('n');
});

test('open connections end with an error when the sandbox is lost or ends, and stay over a pause', async () => {
  await httpSandbox();
  const opened = async () => {
    const socket = net.connect(gateway.port, '127.0.0.1');
    socket.write(`GET /open HTTP/1.1\r\nHost: ${formatHost(sandboxId)}\r\n\r\n`);
    let got = '';
    socket.on('data', (bytes) => {
      got += bytes;
    });
    const closed = waitForClose(socket);
    await until(() => got.includes('first'));
    return { closed, text: () => got };
  };
  const lost = await opened();
  routesOfB.set({ sandboxId, status: 'pausing' });
  routesOfB.set({ sandboxId, status: 'paused' });
  routesOfB.set({ sandboxId, status: 'running' });
  expect(end.server.tunnelCount).toBe(1);
  routesOfB.set({ sandboxId, status: 'failed' });
  await lost.closed;
  // Without the last chunk the client sees that the reply is incomplete.
  expect(lost.text()).not.toMatch(/0\r\n\r\n$/);
  await until(() => end.server.tunnelCount === 0);
  routesOfB.set({ sandboxId, status: 'running' });
  const ended = await opened();
  gateway.routes.set({ sandboxId, status: 'failed' });
  await ended.closed;
  expect(ended.text()).not.toMatch(/0\r\n\r\n$/);
});

test('a machine without a certificate of the sandbox’s host gets no request', async () => {
  const upstream = await httpSandbox();
  const wrong: Record<string, Credential> = {
    'another host': await createCredential({ role: 'host', name: 'host-c' }),
    'another role': await createCredential({ role: 'gateway', name: 'host-b' }),
    'another authority': await createCredential(hostB, { from: stranger }),
    expired: await createCredential(hostB, { lifetimeMs: -1000 }),
  };
  for (const [why, credential] of Object.entries(wrong)) {
    // It would serve any client, and claims to be host-b.
    const impostor = await startEnd({}, hostB, credential);
    place.lastHopAddress = `127.0.0.1:${impostor.port}`;
    const fresh = new LastHops({
      ...{ credential: { current: await createCredential(gatewayA) }, revocations, places: places() },
      localHostId: () => null,
    });
    const socket = openTunnel((await fresh.tunnelTo('host-b'))!, { sandboxId, port: upstream.port, wantsReply: true });
    const [error] = await once(socket, 'error');
    expect([why, (error as Error).message]).toEqual([why, expect.stringMatching(/not the host|certificate|purpose/)]);
    expect(upstream.accepted()).toBe(0);
  }
});

test('only gateways are accepted: no certificate, another role, authority or time, and TLS 1.2 are refused', async () => {
  const upstream = await httpSandbox();
  const line = `SANDBOX/1 ${sandboxId} ${upstream.port} reply\n`;
  const showing = ({ key, certificate }: Credential) => ({ key, cert: certificate });
  for (const options of [
    { key: undefined, cert: undefined },
    showing(await createCredential(hostB)),
    showing(await createCredential(gatewayA, { from: stranger })),
    showing(await createCredential(gatewayA, { lifetimeMs: -1000 })),
    { maxVersion: 'TLSv1.2' as const },
  ]) {
    expect(await rawTunnel(line, options)).toBe('');
  }
  expect(upstream.accepted()).toBe(0);
  // The same without a fault.
  expect((await get()).status).toBe(200);
});

test('a revoked gateway is refused, and its open connections end; a revoked host gets no requests', async () => {
  const upstream = await httpSandbox();
  const socket = openTunnel((await tunnels.tunnelTo('host-b'))!, { sandboxId, port: upstream.port, wantsReply: true });
  const closed = waitForClose(socket);
  expect(String((await once(socket, 'data'))[0])).toBe('+');
  revoked.add('gateway gateway-a');
  for (const listener of revocationListeners) listener();
  await closed;
  expect(await rawTunnel(`SANDBOX/1 ${sandboxId} ${upstream.port} reply\n`)).toBe('');
  expect((await get()).status).toBe(502);
  revoked.clear();
  revoked.add('host host-b');
  expect((await get()).status).toBe(502);
  await expect(tunnels.tunnelTo('host-b')).rejects.toThrow('revoked');
});

test('a first line that is malformed, too long or missing ends the connection', async () => {
  const upstream = await httpSandbox();
  const bad = [
    'GET / HTTP/1.1\r\n\r\n',
    'x'.repeat(5000),
    `${'x'.repeat(200)}\n`,
    'SANDBOX/1 10.0.0.1 22 reply\n',
    '\n',
  ];
  for (const line of bad) expect(await rawTunnel(line)).toBe('');
  const withoutTls = async (port: number, bytes: string) => {
    const socket = net.connect(port, '127.0.0.1');
    const closed = waitForClose(socket.resume());
    socket.write(bytes);
    await closed;
  };
  await withoutTls(end.port, 'GET / HTTP/1.1\r\n\r\n');
  // A client may see the end of its connection before the server has counted it.
  await until(() => end.server.counts().refused.handshake === 1);
  expect(end.server.counts().refused).toMatchObject({ first_line: bad.length, handshake: 1 });

  const quick = await startEnd({ handshakeTimeoutMs: 300 });
  expect(await rawTunnel('', {}, quick)).toBe('');
  await withoutTls(quick.port, '');
  // On a busy machine, the time of the first one ends before its handshake does.
  const { refused } = quick.server.counts();
  await until(() => quick.server.counts().refused.handshake === 2 - refused.first_line);
  expect(upstream.accepted()).toBe(0);
  expect([end.server.tunnelCount, quick.server.tunnelCount]).toEqual([0, 0]);
});

test('tunnels, their bytes and refusals by reason are counted', async () => {
  const upstream = await httpSandbox();
  const registry = new Registry();
  showTunnels(registry, () => end.server.counts());
  const shown = async () => {
    const metrics = await registry.getMetricsAsJSON();
    return Object.fromEntries(
      metrics.flatMap(({ name, values }) =>
        values.map(({ labels, value }) => [[name, ...Object.values(labels)].join(' '), value]),
      ),
    );
  };
  const target = { sandboxId, port: upstream.port, wantsReply: true };
  const socket = openTunnel((await tunnels.tunnelTo('host-b'))!, target);
  const closed = waitForClose(socket);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await until(() => bytes > 0);
  expect(await shown()).toMatchObject({ last_hop_tunnels_total: 1, last_hop_tunnels: 1 });
  const request = 'GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  socket.write(request);
  await until(() => bytes > 3_000_000);
  await closed;
  await until(() => end.server.tunnelCount === 0);

  const asked = (line: string, options?: tls.ConnectionOptions) => rawTunnel(line, options);
  const line = (port: number) => `SANDBOX/1 ${sandboxId} ${port} reply\n`;
  const ofStranger = await createCredential(gatewayA, { from: stranger });
  await asked('GET / HTTP/1.1\r\n');
  await asked(line(1));
  await asked('SANDBOX/1 sbx-unknown 80 reply\n');
  await asked('SANDBOX/1 sbx-unknown 80 plain\n');
  await asked(line(upstream.port), { key: ofStranger.key, cert: ofStranger.certificate });
  revoked.add('gateway gateway-a');
  await asked(line(upstream.port));
  const unready = await startEnd({ credential: { identity: hostB, current: null, onNewer: () => undefined } });
  const early = net.connect(unready.port, '127.0.0.1');
  await waitForClose(early.resume());
  expect(unready.server.counts().refused.no_certificate).toBe(1);
  expect(await shown()).toEqual({
    last_hop_tunnels_total: 1,
    last_hop_tunnels: 0,
    'last_hop_bytes_total to_sandbox': request.length,
    // The first byte is the last hop's own reply.
    'last_hop_bytes_total from_sandbox': bytes - 1,
    'last_hop_refusals_total no_certificate': 0,
    'last_hop_refusals_total too_many': 0,
    'last_hop_refusals_total handshake': 1,
    'last_hop_refusals_total identity': 1,
    'last_hop_refusals_total first_line': 1,
    'last_hop_refusals_total not_here': 2,
    'last_hop_refusals_total port_closed': 1,
  });
});

test('unauthenticated connections have few places, which become free again', async () => {
  const upstream = await httpSandbox();
  const silentTo = async ({ port }: { port: number }) => {
    const sockets = [1, 2, 3].map(() => net.connect(port, '127.0.0.1'));
    const ends = sockets.map((socket) => waitForClose(socket.resume()));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    return { sockets, ended: Promise.all(ends) };
  };
  const readAnswer = (narrow: { port: number }) => rawTunnel(`SANDBOX/1 ${sandboxId} 1 reply\n`, {}, narrow);
  const patient = await startEnd({ maxUnproven: 3 });
  const { sockets } = await silentTo(patient);
  expect(await readAnswer(patient)).toBe('');
  expect(patient.server.counts().refused).toMatchObject({ too_many: 1, handshake: 0 });
  for (const socket of sockets) socket.destroy();
  await until(async () => (await readAnswer(patient)) === 'r');
  // Also with peers that neither send anything nor close.
  const quick = await startEnd({ maxUnproven: 3, handshakeTimeoutMs: 2000 });
  await (await silentTo(quick)).ended;
  await until(async () => (await readAnswer(quick)) === 'r');
  expect(upstream.accepted()).toBe(0);
});

test('bytes that a sandbox sends before it closes arrive, and a half-closed connection works', async () => {
  const upstream = await startRawUpstream((socket) => {
    let got = '';
    socket.on('data', (bytes) => {
      got += bytes;
    });
    socket.on('end', () => socket.end(`${got.length} bytes`.padEnd(100_000, '.')));
  });
  stops.push(() => upstream.stop());
  put(upstream);
  const tunnel = (await tunnels.tunnelTo('host-b'))!;
  const socket = openTunnel(tunnel, { sandboxId, port: upstream.port, wantsReply: true });
  socket.allowHalfOpen = true;
  socket.end('x'.repeat(200_000));
  let got = '';
  for await (const chunk of socket) got += chunk;
  expect([got.length, got.slice(0, 13)]).toEqual([100_001, '+200000 bytes']);
});
