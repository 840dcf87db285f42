import http from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import WebSocket from 'ws';
import { gatewayLookup } from '../../../ops/development/client/agent-client.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';

/**
 * The whole platform as separate processes on real containers, used as its users do: the API over HTTP, the agent
 * through the gateway.
 */
// On a busy machine a killed host worker may need longer for its restart than the default lease lasts.
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_HOST_LEASE_SECONDS: '60',
  PLATFORM_WARM_POOL_SIZE: '2',
});
let api: PlatformClient;
const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
/** Its timeout of a minute expires during the tests before its own. */
let timed: SandboxView;
/** The time just before its create. */
let timedAtMs: number;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
  const created = await api.createSandbox({ ...small, timeout: 60 });
  timedAtMs = Date.now();
  timed = (await api.request<SandboxView>('POST', `/v1/sandboxes/${created.sandbox_id}/connect`, { timeout: 60 })).body
    .data;
}, 180_000);

afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}, 180_000);

async function withSandbox<T>(wanted: Record<string, unknown>, work: (sandbox: SandboxView) => Promise<T>): Promise<T> {
  const sandbox = await api.createSandbox({ ...small, ...wanted });
  try {
    return await work(sandbox);
  } finally {
    await api.deleteSandbox(sandbox.sandbox_id);
  }
}

describe('a sandbox', () => {
  test('runs code, keeps files and processes during a pause, and is removed by its deletion', async () => {
    const sandbox = await api.createSandbox({ ...small, name: 'whole-life', env_vars: { GREETING: 'hello' } });
    expect(sandbox).toMatchObject({ status: 'running', substatus: null });
    const agent = platform.agent(sandbox);
    expect(await agent.run('/bin/sh', ['-c', 'echo $GREETING from $(hostname); id -u; exit 3'])).toEqual({
      exitCode: 3,
      stdout: `hello from ${sandbox.sandbox_id}\n0\n`,
      stderr: '',
    });
    await agent.upload('/root/notes/a.txt', 'kept');
    expect((await agent.download('/root/notes/a.txt')).toString()).toBe('kept');
    const pid = await agent.start('sleep', ['600']);

    const paused = await api.request<SandboxView>('POST', `/v1/sandboxes/${sandbox.sandbox_id}/pause`, {});
    expect(paused.body.data).toMatchObject({ status: 'paused', reason: 'user_requested', remaining_seconds: null });
    expect((await agent.request('/health')).status).toBe(502);
    const resumed = await api.request<SandboxView>('POST', `/v1/sandboxes/${sandbox.sandbox_id}/resume`, {});
    expect(resumed.body.data).toMatchObject({ status: 'running' });
    expect((await agent.download('/root/notes/a.txt')).toString()).toBe('kept');
    expect(await agent.processes()).toContain(pid);

    const ended = await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/terminate`);
    expect(ended).toMatchObject({ status: 202, body: { data: { status: 'termination_in_progress' } } });
    await api.untilStatus(sandbox.sandbox_id, 'terminated');
    expect((await agent.request('/health')).status).toBe(502);
    await api.deleteSandbox(sandbox.sandbox_id);
    expect((await agent.request('/health')).status).toBe(502);
    agent.close();
  }, 180_000);

  test('has the requested limits', async () => {
    await withSandbox({ cpu_count: 1, memory_mb: 300, storage_gb: 2 }, async (sandbox) => {
      const agent = platform.agent(sandbox);
      const { stdout } = await agent.run('df', ['-B1M', '--output=size', '/']);
      const sizeMb = Number(stdout.split('\n')[1]);
      expect(sizeMb).toBeGreaterThan(1800);
      expect(sizeMb).toBeLessThanOrEqual(2048);
      const full = await agent.run('sh', ['-c', 'head -c 3G /dev/zero > /root/fill; rm -f /root/fill']);
      expect(full.stderr).toContain('No space left on device');
      agent.close();
    });
  }, 180_000);

  test('requires its token, and refuses another sandbox’s token', async () => {
    await withSandbox({}, (mine) =>
      withSandbox({ secure: false }, async (open) => {
        for (const token of [null, 'wrong', open.envd_access_token]) {
          const agent = platform.agent(mine, token);
          expect((await agent.request('/download/etc/hostname')).status).toBe(401);
          await expect(agent.run('true')).rejects.toThrow(/unauthenticated/);
          expect((await agent.request('/health')).status).toBe(200);
          agent.close();
        }
        const anyone = platform.agent(open, null);
        expect((await anyone.run('echo', ['open'])).stdout).toBe('open\n');
        anyone.close();
      }),
    );
  }, 180_000);

  test('reaches nothing outside without internet access, and never the platform itself', async () => {
    await withSandbox({ allow_internet_access: false }, async (sandbox) => {
      const agent = platform.agent(sandbox);
      const apiPort = new URL(platform.env.PLATFORM_URL).port;
      const gateway = (
        await agent.run('sh', ['-c', "ip route 2>/dev/null | awk '/default/ {print $3}' || true"])
      ).stdout.trim();
      const targets = [`${gateway || '10.0.0.1'}:${apiPort}`, '127.0.0.1:7080', '169.254.169.254:80', '1.1.1.1:53'];
      for (const target of targets) {
        const [address, port] = target.split(':');
        const attempt = await agent.run('bash', ['-c', `timeout 2 bash -c 'echo > /dev/tcp/${address}/${port}'`]);
        expect(attempt.exitCode).not.toBe(0);
      }
      agent.close();
    });
  }, 180_000);

  test('serves its own ports through the gateway, over HTTP and WebSocket', async () => {
    const ports = [{ port: 8000, name: 'web', protocol: 'TCP' }];
    await withSandbox({ custom_ports: ports }, async (sandbox) => {
      const agent = platform.agent(sandbox);
      await agent.upload('/root/server.mjs', webServer);
      await agent.start('/.platform/bin/node', ['/root/server.mjs']);
      await until(async () => (await agent.request('/', { port: 8000 })).status === 200);
      expect((await agent.request('/hi?x=1', { port: 8000 })).body.toString()).toBe('GET /hi?x=1');
      const refused = await agent.request('/', { port: 8001 });
      expect(refused.status).toBe(401);
      expect(await echoOverWebSocket(`ws://8000-${sandbox.sandbox_domain}/`, 'ping')).toBe('upgraded');
      agent.close();
    });
  }, 180_000);

  test('whose agent ends keeps its other processes and gets a new agent, for the gateway and the API', async () => {
    await withSandbox({}, async (sandbox) => {
      const agent = platform.agent(sandbox);
      const exec = (method: string, below = '', body?: object) =>
        api.request<unknown>(method, `/v1/sandboxes/${sandbox.sandbox_id}/exec${below}`, body);
      expect((await exec('POST', '', { command: 'sleep 3600' })).status).toBe(201);
      await agent.run('sh', ['-c', 'sleep 3600 >/dev/null 2>&1 & kill -9 $PPID']).catch(() => undefined);
      const isThere = () =>
        agent.run('pgrep', ['-x', 'sleep']).then(
          ({ exitCode }) => exitCode === 0,
          () => false,
        );
      await until(isThere);
      // The new agent does not know the previous agent's command.
      expect((await exec('GET', '/active')).body).toMatchObject({ active: false });
      expect((await exec('POST', '', { command: 'true' })).status).toBe(201);
      const seen = await api.request<SandboxView>('GET', `/v1/sandboxes/${sandbox.sandbox_id}`);
      expect(seen.body.data).toMatchObject({ status: 'running' });
      agent.close();
    });
  }, 180_000);

  test('whose processes end on their own has failed, and has the reason', async () => {
    const sandbox = await api.createSandbox(small);
    const agent = platform.agent(sandbox);
    await agent.run('sh', ['-c', 'kill -TERM 1']).catch(() => undefined);
    const failed = await api.untilStatus(sandbox.sandbox_id, 'failed');
    expect(failed).toMatchObject({ reason: 'runtime_exited', lifecycle_outcome: 'failed' });
    agent.close();
    await api.deleteSandbox(sandbox.sandbox_id);
  }, 180_000);

  test('ends automatically after its timeout, and differs from a terminated one', async () => {
    expect(Date.parse(timed.timeout_at as string)).toBeGreaterThanOrEqual(timedAtMs + 60_000);
    const ended = await api.untilStatus(timed.sandbox_id, 'terminated', 120_000);
    expect(ended).toMatchObject({ reason: 'timeout', lifecycle_outcome: 'timed_out' });
    await api.deleteSandbox(timed.sandbox_id);
  }, 180_000);
});

describe('the platform', () => {
  test('loses no sandbox when its host worker is killed', async () => {
    await withSandbox({}, async (sandbox) => {
      const agent = platform.agent(sandbox);
      const pid = await agent.start('sleep', ['600']);
      const [host] = platform.findPids('worker/host.ts');
      process.kill(host!, 'SIGKILL');
      expect(await agent.processes()).toContain(pid);
      await until(() => platform.findPids('worker/host.ts').some((each) => each !== host));
      const paused = await api.request<SandboxView>('POST', `/v1/sandboxes/${sandbox.sandbox_id}/pause`, {});
      expect(paused.body.data).toMatchObject({ status: 'paused' });
      await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/resume`, {});
      expect(await agent.processes()).toContain(pid);
      agent.close();
    });
  }, 180_000);

  test('takes its sandboxes over after a stop and a start', async () => {
    await withSandbox({}, async (sandbox) => {
      const agent = platform.agent(sandbox);
      const pid = await agent.start('sleep', ['600']);
      agent.close();
      await platform.stop();
      await platform.start();
      // In the meantime, another copy on this machine may have taken the platform's port.
      api = platform.client();
      const again = platform.agent(await api.sandbox(sandbox.sandbox_id));
      expect(await again.processes()).toContain(pid);
      again.close();
    });
  }, 180_000);

  test('leaves nothing behind after its sandboxes', async () => {
    const { body } = await api.request<{ sandboxes: unknown[] }>('GET', '/v1/sandboxes');
    expect(body.data.sandboxes).toEqual([]);
    await platform.stop();
    expect(await platform.hostRemains()).toEqual([]);
  }, 180_000);
});

/** An HTTP server that echoes the request line and accepts any upgrade. */
const webServer = `
import http from 'node:http';
import crypto from 'node:crypto';
http.createServer((q, r) => r.end(q.method + ' ' + q.url)).on('upgrade', (q, socket) => {
  const accept = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n');
  socket.write(Buffer.from([0x81, 8, ...Buffer.from('upgraded')]));
}).listen(8000, '0.0.0.0');
`;

function echoOverWebSocket(url: string, message: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { lookup: gatewayLookup(), agent: new http.Agent() });
    socket.once('open', () => socket.send(message));
    socket.once('message', (data) => {
      resolve(data.toString());
      socket.terminate();
    });
    socket.once('error', reject);
  });
}
