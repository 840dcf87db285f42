import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Filesystem, Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { type Reply, send } from './client.ts';
import { hostOf, type StartedGateway, startGateway } from './started-gateway.ts';

const id = 'sbx-agent';
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
      AGENT_LISTEN: '127.0.0.1',
      AGENT_SANDBOX_ID: id,
      AGENT_ACCESS_TOKEN: agentToken,
      AGENT_PLATFORM_TOKEN: platformToken,
      AGENT_COMMAND_TAIL: path.join(dir, 'tail'),
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  started.routes.set({ sandboxId: id, agentPort, secure: true, accessToken: agentToken });
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
  return send({ port: started.port, host: hostOf(id), path: target, ...options });
}

/** Every way to call the agent through the gateway; `secure` means over TLS with the local CA. */
const transports = ['connect', 'grpc-web', 'grpc'].flatMap((protocol) => [
  { protocol, httpVersion: '2' as const, secure: false },
  { protocol, httpVersion: '2' as const, secure: true },
  ...(protocol === 'grpc' ? [] : [{ protocol, httpVersion: '1.1' as const, secure: true }]),
]);

function transportOf({ protocol, httpVersion, secure }: (typeof transports)[number], token = agentToken) {
  const connectAs = { servername: hostOf(id), ca: started.ca.certificatePem };
  const options = {
    // Its name has no DNS entry. The gateway uses the Host field.
    baseUrl: `${secure ? 'https' : 'http'}://${hostOf(id)}:${started.port}`,
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
  const client = createClient(Process, transportOf(transport));
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
    const client = createClient(Filesystem, transportOf(transport, token));
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
  const direct = await send({ port: agentPort, host: 'agent', path: '/platform/state', headers });
  expect(direct.status).toBe(200);
  const through = await call('/platform/state', { headers });
  expect([through.status, through.json.code]).toEqual([404, 'not_found']);
});
