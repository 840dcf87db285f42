import { type EventEmitter, once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import WebSocket from 'ws';
import { Process } from '../../agent/proto/gen/sandboxagent_pb.js';
import { type AgentClient, gatewayLookup } from '../../ops/development/client/agent-client.ts';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { makeLastHopFiles } from '../support/last-hop-files.ts';
import { SecondMachine } from '../support/second-machine.ts';
import { until } from '../support/until.ts';
import { FarHost } from './far-host.ts';
import { FaultyPlatform } from './faulty-platform.ts';
import { remains } from './matrix.ts';
import { small } from './transitions.ts';

/** The link to another machine is cut while clients have open streams to a sandbox there, through its last hop. */
const lastHopPort = 7084;
const cleanUp = new AsyncDisposableStack();
let machine: SecondMachine;
let platform: FaultyPlatform;
let far: FarHost;
let running: SandboxView;
let paused: SandboxView;
let near: SandboxView;
let cutMs: number;

beforeAll(async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cut-link-'));
  cleanUp.defer(() => fs.rmSync(folder, { recursive: true, force: true }));
  const files = await makeLastHopFiles(folder);
  platform = await FaultyPlatform.start({
    PLATFORM_HOST_ID: 'host-near',
    PLATFORM_LAST_HOP_CA_DIR: files.caDir,
    PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: files.token('gateway', 'near'),
  });
  cleanUp.defer(() => platform.removeData());
  machine = SecondMachine.make();
  far = await FarHost.start(platform, {
    machine,
    withGateway: true,
    settings: {
      PLATFORM_HOST_ID: 'host-far',
      PLATFORM_GATEWAY_PROCESSES: '1',
      PLATFORM_LAST_HOP_CA_DIR: '',
      PLATFORM_LAST_HOP_ADDRESS: `${machine.far}:${lastHopPort}`,
      PLATFORM_LAST_HOP_HOST_TOKEN_FILE: files.token('host', 'host-far'),
      PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: files.token('gateway', 'far'),
    },
  });
  cleanUp.defer(() => far.close());
  [running, paused, near] = [await createIn('far'), await createIn('far'), await createIn('local')];
  expect((await post(paused, 'pause')).status).toBe(200);
  // Both ends have their certificates by then.
  await until(async () => (await post(running, 'exec', { command: 'true', wait: true })).status === 200, 30_000, 100);
}, 240_000);

afterAll(async () => {
  cleanUp.defer(() => platform?.stop());
  await cleanUp.disposeAsync();
}, 180_000);

async function createIn(region: string): Promise<SandboxView> {
  const made = await platform.api.createSandbox({ ...small, locality: { region, force: true } });
  return platform.api.sandbox(made.sandbox_id);
}

const post = ({ sandbox_id: id }: SandboxView, what: string, body: object = {}) =>
  platform.api.request('POST', `/v1/sandboxes/${id}/${what}`, body);

/** An open stream: its data so far and its end. */
interface Stream {
  received: string;
  /** Includes the time since the cut. */
  end: Promise<string>;
}

function watch(begin: (receive: (bytes: string) => void) => Promise<string>): Stream {
  const stream: Stream = { received: '', end: Promise.resolve('') };
  stream.end = begin((bytes) => {
    stream.received += bytes;
  });
  return stream;
}

/** A command that prints once and continues. */
function watchCommand(agent: AgentClient): Stream {
  return watch(async (receive) => {
    const process = { cmd: 'sh', args: ['-c', 'echo begun; sleep 600'] };
    try {
      for await (const { event } of agent.client(Process).start({ process })) {
        if (event?.event.case !== 'data' || event.event.value.output.case !== 'stdout') continue;
        receive(Buffer.from(event.event.value.output.value).toString());
      }
    } catch (error) {
      return `broke off: ${(error as Error).name}`;
    }
    return 'ended as if complete';
  });
}

function watchReply(reply: http.IncomingMessage): Stream {
  return watch(async (receive) => {
    reply.setEncoding('utf8').on('data', receive);
    await waitForClose(reply);
    return reply.complete ? 'ended as if complete' : 'broke off';
  });
}

function watchWebSocket(port: number, { sandbox_domain: domain, envd_access_token: token }: SandboxView): Stream {
  return watch(async (receive) => {
    const headers = { 'X-Access-Token': token };
    const socket = new WebSocket(`ws://${port}-${domain}/`, { headers, lookup: gatewayLookup() });
    socket.on('message', (bytes) => receive(String(bytes)));
    const [code] = await waitForClose(socket);
    return `closed with ${code}`;
  });
}

/** An error before the close adds no information, so it is ignored. */
function waitForClose(emitter: EventEmitter): Promise<unknown[]> {
  emitter.on('error', () => undefined);
  return new Promise((resolve) => emitter.once('close', (...words) => resolve(words)));
}

/** Serves HTTP and WebSocket. Each reply begins and does not end. */
const openEnded = `const { createHash } = require('crypto');
const accept = (key) => createHash('sha1').update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
const server = () => require('http').createServer((request, reply) => reply.write('begun'))
  .on('upgrade', (request, socket) => {
    const key = accept(request.headers['sec-websocket-key']);
    socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n' +
      'Sec-WebSocket-Accept: ' + key + '\\r\\n\\r\\n');
    socket.write(Buffer.concat([Buffer.from([0x81, 5]), Buffer.from('begun')]));
  });
server().listen(8000);
server().listen(8001);`;

async function request(port: number, { sandbox_domain: domain, envd_access_token: token }: SandboxView) {
  const [, gatewayPort] = domain.split(':');
  const headers = { host: `${port}-${domain}`, 'X-Access-Token': token };
  const asked = http.get(`http://127.0.0.1:${gatewayPort ?? 80}/`, { headers, agent: false });
  const [reply] = (await once(asked, 'response')) as [http.IncomingMessage];
  return reply;
}

async function refusal(reply: http.IncomingMessage): Promise<[number, string]> {
  return [reply.statusCode!, (JSON.parse(await text(reply)) as { code: string }).code];
}

let streams: Record<'command' | 'reply' | 'webSocket' | 'exec', Stream>;
let nearStream: Stream;

test('streams are open to a sandbox of the other machine', async () => {
  const agent = platform.agent(running);
  const nearAgent = platform.agent(near);
  cleanUp.defer(() => {
    agent.close();
    nearAgent.close();
  });
  await agent.upload('/root/server.cjs', openEnded);
  await agent.start('/.platform/bin/node', ['/root/server.cjs']);
  let reply = await request(8000, running);
  await until(async () => {
    if (reply.statusCode !== 200) {
      await text(reply);
      reply = await request(8000, running);
    }
    return reply.statusCode === 200;
  });
  const exec = await post(running, 'exec', { command: 'echo begun; sleep 600' });
  expect(exec.status).toBe(201);
  const { stream_path: streamPath } = exec.body as unknown as { stream_path: string };
  const asked = http.get(`${platform.settings.PLATFORM_URL}${streamPath}`, { agent: false });
  const [execReply] = (await once(asked, 'response')) as [http.IncomingMessage];
  streams = {
    command: watchCommand(agent),
    reply: watchReply(reply),
    webSocket: watchWebSocket(8000, running),
    exec: watchReply(execReply),
  };
  nearStream = watchCommand(nearAgent);
  const begun = (stream: Stream) => /begun|event: stdout/.test(stream.received);
  await until(() => [...Object.values(streams), nearStream].every(begun));
}, 120_000);

test('after a cut new requests are refused with errors that give the reason', async () => {
  machine.cut();
  cutMs = Date.now();
  const [ofPort, ofApi] = await Promise.all([
    request(8001, running).then(refusal),
    platform.api.request('GET', `/v1/sandboxes/${running.sandbox_id}/exec/active`),
  ]);
  expect(ofPort).toEqual([502, 'sandbox_unreachable']);
  expect(ofApi).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
}, 60_000);

test('its host is declared lost: the sandbox has failed as host_lost, and every open stream ends with an error', async () => {
  const failed = await platform.api.untilStatus(running.sandbox_id, 'failed', 40_000);
  expect(failed).toMatchObject({ reason: 'host_lost', lifecycle_outcome: 'failed' });
  process.stdout.write(`cut link: failed after ${(Date.now() - cutMs) / 1000} s\n`);
  expect(await streams.command.end).toBe('broke off: ConnectError');
  expect(await streams.reply.end).toBe('broke off');
  // Without a closing frame.
  expect(await streams.webSocket.end).toBe('closed with 1006');
  process.stdout.write(`cut link: streams of the gateway ended after ${(Date.now() - cutMs) / 1000} s\n`);
  // The API's reply is complete: its last event is the error.
  expect(await streams.exec.end).toBe('ended as if complete');
  expect(streams.exec.received).toMatch(/event: error\ndata: .*"code":"sandbox_ended".*\n\n$/);
  process.stdout.write(`cut link: the stream of exec ended after ${(Date.now() - cutMs) / 1000} s\n`);
}, 120_000);

test('meanwhile: clear refusals, the paused sandbox is kept, and sandboxes of this machine continue', async () => {
  expect(await refusal(await request(8000, running))).toEqual([502, 'sandbox_not_running']);
  expect(await post(running, 'exec', { command: 'true' })).toMatchObject({
    status: 409,
    body: { code: 'sandbox_not_running' },
  });
  expect(await post(paused, 'resume')).toMatchObject({ status: 503, body: { code: 'host_unavailable' } });
  expect(await Promise.race([nearStream.end, 'open'])).toBe('open');
  expect(await post(near, 'exec', { command: 'echo here', wait: true })).toMatchObject({
    status: 200,
    body: { stdout: 'here\n' },
  });
}, 60_000);

test('when the link is back nothing of those streams is left there, and the paused sandbox is reached again', async () => {
  machine.restore();
  const backMs = Date.now();
  await until(() => machine.connectionsTo(lastHopPort).length === 0, 120_000, 200);
  process.stdout.write(`cut link: the other end has none ${(Date.now() - backMs) / 1000} s after it is back\n`);
  await until(async () => (await post(paused, 'resume')).status === 200, 60_000, 200);
  const agent = platform.agent(paused);
  cleanUp.defer(() => agent.close());
  const hostname = async () => {
    try {
      return (await agent.run('hostname')).stdout;
    } catch {
      // The gateway of that machine may not know of the resume yet.
      return null;
    }
  };
  await until(async () => (await hostname()) === `${paused.sandbox_id}\n`, 30_000, 200);
  expect(machine.connectionsTo(lastHopPort)).not.toEqual([]);
}, 240_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform, [platform.dataDir, far.dataDir])).toEqual([]);
  expect(far.veths()).toEqual([]);
}, 120_000);
