import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { freePort } from '../support/free-port.ts';
import { makeLastHopFiles } from '../support/last-hop-files.ts';
import { RunningPlatform, removeHostRemains } from '../support/running-platform.ts';
import { SecondMachine } from '../support/second-machine.ts';
import { until } from '../support/until.ts';

/**
 * Two machines that are connected by one link. The first has the control plane, a host, an API and a gateway, the
 * second a host and a gateway. There is no route to the sandboxes of the other machine.
 */
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
const secondGatewayPort = 7081;
const secondLastHopPort = 7084;
/** Disposed in reverse order, even if a part of it fails. */
const cleanUp = new AsyncDisposableStack();
let machine: SecondMachine;
let platform: RunningPlatform;
let api: PlatformClient;
let north: SandboxView;
let south: SandboxView;

beforeAll(async () => {
  const folder = folderOfTest('several-machines-');
  const files = await makeLastHopFiles(folder);
  machine = SecondMachine.make();
  cleanUp.defer(() => machine.close());
  platform = new RunningPlatform({
    PLATFORM_REGION: 'north',
    PLATFORM_WARM_POOL_SIZE: '0',
    PLATFORM_IMAGES_AHEAD: 'none',
    PLATFORM_HOST_ID: 'host-north',
    PLATFORM_LAST_HOP_CA_DIR: files.caDir,
    PLATFORM_LAST_HOP_ADDRESS: `${machine.near}:${await freePort()}`,
    PLATFORM_LAST_HOP_HOST_TOKEN_FILE: files.token('host', 'host-north'),
    PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: files.token('gateway', 'north'),
  });
  cleanUp.defer(() => platform.removeData());
  cleanUp.defer(async () => expect(await platform.hostRemains()).toEqual([]));
  cleanUp.defer(() => platform.stop());
  await platform.start();
  api = platform.client();
  await startSecond(folder, files.token('host', 'host-south'), files.token('gateway', 'south'));
  north = await createIn('north');
  south = await createIn('south');
}, 180_000);

afterAll(() => cleanUp.disposeAsync(), 180_000);

function folderOfTest(name: string): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), name));
  cleanUp.defer(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function startSecond(folder: string, hostToken: string, gatewayToken: string): Promise<void> {
  const settings = runningPlatformEnv(platform.dataDir, {});
  const database = new URL(settings.DATABASE_URL!);
  database.search = '';
  database.host = await machine.relay(database.host);
  const dataDir = folderOfTest('sandbox-platform-e2e-');
  cleanUp.defer(async () => expect(await removeHostRemains(dataDir)).toEqual([]));
  const env = {
    ...process.env,
    ...settings,
    NODE_OPTIONS: '',
    DATABASE_URL: database.href,
    TEMPORAL_ADDRESS: await machine.relay(settings.TEMPORAL_ADDRESS!),
    PLATFORM_DATA_DIR: dataDir,
    PLATFORM_HOST_ID: 'host-south',
    PLATFORM_REGION: 'south',
    PLATFORM_SANDBOX_SUBNET: machine.sandboxSubnet,
    PLATFORM_GATEWAY_HOST: machine.far,
    PLATFORM_GATEWAY_PORT: String(secondGatewayPort),
    PLATFORM_LAST_HOP_CA_DIR: '',
    PLATFORM_LAST_HOP_ADDRESS: `${machine.far}:${secondLastHopPort}`,
    PLATFORM_LAST_HOP_HOST_TOKEN_FILE: hostToken,
    PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: gatewayToken,
  };
  const home = { logDir: path.join(folder, 'logs') };
  fs.mkdirSync(home.logDir);
  const start = async (name: string, script: string) => {
    const program = await machine.start({ name, script, env, home });
    cleanUp.defer(() => program.stop());
  };
  // Starts both and waits for both, so that after a failure the started one is stopped, too.
  const starts = [start('host', 'worker/host.ts'), start('gateway', 'gateway/server.ts')];
  for (const started of await Promise.allSettled(starts)) if (started.status === 'rejected') throw started.reason;
}

async function createIn(region: string): Promise<SandboxView> {
  const made = await api.createSandbox({ ...small, locality: { region, force: true } });
  cleanUp.defer(() => api.deleteSandbox(made.sandbox_id));
  const sandbox = await api.sandbox(made.sandbox_id);
  expect([sandbox.status, sandbox.region]).toEqual(['running', region]);
  return sandbox;
}

async function get(gateway: string, path: string, headers: http.OutgoingHttpHeaders) {
  const request = http.get(`${gateway}${path}`, { headers, agent: false });
  const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
  return { status: reply.statusCode!, body: await text(reply) };
}

const parseAddress = (sandbox: SandboxView) => String(sandbox.sandbox_domain_internal).split(':')[0]!;
const gateways = () => [platform.env.PLATFORM_GATEWAY, `http://${machine.far}:${secondGatewayPort}`];

test('no machine has a route to the sandboxes of the other', () => {
  const { near, far } = machine.links;
  expect(machine.devicesTo(machine.far, { from: 'near' })).toContain(near);
  expect(machine.devicesTo(machine.near, { from: 'far' })).toContain(far);
  expect(machine.devicesTo(parseAddress(south), { from: 'near' })).not.toContain(near);
  expect(machine.devicesTo(parseAddress(north), { from: 'far' })).not.toContain(far);
});

test('either gateway serves the sandboxes of both machines', async () => {
  for (const gateway of gateways()) {
    for (const sandbox of [north, south]) {
      // A gateway that has just started may still wait for its certificate.
      await until(
        async () => (await get(gateway, '/health', { host: sandbox.sandbox_domain })).status < 300,
        30_000,
        100,
      );
    }
  }
}, 150_000);

test('commands and files of a sandbox of the other machine, also after a pause', async () => {
  const agent = platform.agent(south);
  expect((await agent.run('hostname')).stdout).toBe(`${south.sandbox_id}\n`);
  const content = Buffer.alloc(3_000_000, 'all that is sent arrives\n');
  await agent.upload('/root/file', content);
  expect((await agent.download('/root/file')).equals(content)).toBe(true);
  for (const [command, status] of [
    ['pause', 'paused'],
    ['resume', 'running'],
  ]) {
    const reply = await api.request<SandboxView>('POST', `/v1/sandboxes/${south.sandbox_id}/${command}`, {});
    expect(reply).toMatchObject({ status: 200, body: { data: { status } } });
  }
  expect((await agent.run('wc', ['-c', '/root/file'])).stdout).toBe('3000000 /root/file\n');
  agent.close();
});

test('exec of the API', async () => {
  for (const sandbox of [north, south]) {
    const command = { command: 'echo from $(hostname)', wait: true };
    const { status, body } = await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/exec`, command);
    expect([status, body]).toEqual([200, expect.objectContaining({ stdout: `from ${sandbox.sandbox_id}\n` })]);
  }
});

test('ports: requests, and connections that switch to WebSocket, through either gateway', async () => {
  const agent = platform.agent(south);
  await agent.upload(
    '/root/server.cjs',
    `require('http').createServer((request, reply) => reply.end('port of ' + require('os').hostname()))
       .on('upgrade', (_request, socket) => {
         socket.write('HTTP/1.1 101 x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n');
         socket.pipe(socket);
       }).listen(8000);`,
  );
  await agent.start('/.platform/bin/node', ['/root/server.cjs']);
  agent.close();
  const headers = { host: `8000-${south.sandbox_domain}`, 'X-Access-Token': south.envd_access_token };
  for (const gateway of gateways()) {
    await until(async () => (await get(gateway, '/', headers)).status === 200);
    expect(await get(gateway, '/', headers)).toEqual({ status: 200, body: `port of ${south.sandbox_id}` });
    const request = http.request(gateway, {
      headers: {
        ...{ ...headers, Connection: 'Upgrade', Upgrade: 'websocket' },
        ...{ 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' },
      },
    });
    request.end();
    const [reply, socket] = (await once(request, 'upgrade')) as [http.IncomingMessage, net.Socket];
    expect(reply.statusCode).toBe(101);
    socket.write('to and fro');
    expect(String((await once(socket, 'data'))[0])).toBe('to and fro');
    socket.destroy();
  }
});
