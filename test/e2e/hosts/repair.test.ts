import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxId } from '../../../domain/ids.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { askUdp, udpEcho } from '../../support/udp.ts';
import { until } from '../../support/until.ts';

/** A sandbox with damage from outside, or one that does not respond, on the whole platform. */
// On a busy machine a killed host worker may need longer for its restart than the default lease lasts.
const platform = await RunningPlatform.onSharedServers({ PLATFORM_HOST_LEASE_SECONDS: '60' });
let api: PlatformClient;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
}, 180_000);
afterAll(async () => {
  await platform.stop();
  const remains = await platform.hostRemains();
  platform.removeData();
  expect(remains).toEqual([]);
}, 180_000);

const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
const inFolder = (id: string, file = '') => path.join(platform.dataDir, 'oci/sandboxes', id, file);
const onHost = (...words: string[]) => execFileSync(words[0]!, words.slice(1), { encoding: 'utf8' });
/** The host's route to a sandbox: `<address> dev <link> …`. */
const routeTo = async (id: SandboxId) => {
  const { sandbox_domain_internal: place } = (await api.sandbox(id)) as unknown as { sandbox_domain_internal: string };
  const [route] = JSON.parse(onHost('ip', '-json', 'route', 'show', place.split(':')[0]!)) as {
    dst: string;
    dev: string;
  }[];
  return route!;
};

test('a removed link and route are restored, and the processes survive', async () => {
  const sandbox = await api.createSandbox(small);
  const agent = platform.agent(sandbox);
  const pid = await agent.start('sleep', ['600']);
  const { dst, dev } = await routeTo(sandbox.sandbox_id);
  for (const loss of [
    ['ip', 'link', 'delete', 'dev', dev],
    ['ip', 'route', 'delete', dst],
  ]) {
    onHost(...loss);
    const isBack = () => {
      const routes = JSON.parse(onHost('ip', '-json', 'route', 'show', dst)) as { dev: string }[];
      return routes.some((route) => route.dev === dev);
    };
    await until(isBack);
    // The route exists a moment before packets are forwarded.
    const isReached = () =>
      agent.processes().then(
        (pids) => pids.includes(pid),
        () => false,
      );
    await until(isReached);
  }
  agent.close();
  await api.deleteSandbox(sandbox.sandbox_id);
}, 180_000);

test('a sandbox whose agent hangs is restarted on its disk, also after a refused resume', async () => {
  const sandbox = await api.createSandbox(small);
  const id = sandbox.sandbox_id;
  const agent = platform.agent(sandbox);
  await agent.upload('/root/note', 'kept');
  const send = (action: string) => api.request<SandboxView>('POST', `/v1/sandboxes/${id}/${action}`, {});
  void agent.run('sh', ['-c', 'sync; kill -STOP $PPID']).catch(() => undefined);
  const [agentPid] = readFileSync(inFolder(id, 'agent'), 'utf8').split(' ');
  await until(() => /^State:\s+T/m.test(readFileSync(`/proc/${agentPid}/status`, 'utf8')));
  await until(async () => (await send('pause')).body.data?.status === 'paused');
  const refused = await send('resume');
  expect(refused).toMatchObject({ status: 409, body: { code: 'agent_not_answering' } });
  expect(await api.sandbox(id)).toMatchObject({ status: 'paused', reason: 'resume_failed' });
  const restarted = await send('restart');
  expect(restarted.body.data).toMatchObject({ status: 'running', reason: 'restarted' });
  const again = platform.agent(await api.sandbox(id));
  expect((await again.download('/root/note')).toString()).toBe('kept');
  again.close();
  agent.close();
  await api.deleteSandbox(id);
}, 180_000);

const killHostWorker = () => {
  for (const pid of platform.findPids('worker/host.ts')) process.kill(pid, 'SIGKILL');
};

/** Deletes it and waits until its data is gone. */
async function deleted(id: SandboxId): Promise<void> {
  await api.deleteSandbox(id);
  await until(async () => (await api.request('GET', `/v1/sandboxes/${id}`)).status === 404);
}

test.each(['at work', 'away'])(
  'a sandbox whose folder is removed by hand while the host worker is %s fails, leaves nothing and can be deleted',
  async (worker) => {
    const [running, paused] = await Promise.all([api.createSandbox(small), api.createSandbox(small)]);
    const lost = [running!, paused!].map((sandbox) => sandbox.sandbox_id);
    await api.request('POST', `/v1/sandboxes/${lost[1]}/pause`, {});
    if (worker === 'away') killHostWorker();
    for (const id of lost) rmSync(inFolder(id), { recursive: true });
    for (const id of lost) {
      await api.untilStatus(id, 'failed');
      const found = await api.sandbox(id);
      expect(found).toMatchObject({ reason: 'disk_lost', lifecycle_outcome: 'failed' });
      const refused = await api.request('POST', `/v1/sandboxes/${id}/resume`, {});
      expect(refused.status).toBe(409);
      await deleted(id);
    }
  },
  180_000,
);

test('UDP ports of a sandbox whose record is lost are restored with its host worker', async () => {
  const port = { port: 5300, name: 'echo', protocol: 'UDP', service_port: 5000 };
  const sandbox = await api.createSandbox({ ...small, custom_ports: [port] });
  const id = sandbox.sandbox_id;
  const agent = platform.agent(sandbox);
  await agent.upload('/root/echo.cjs', udpEcho(5000));
  await agent.start('/.platform/bin/node', ['/root/echo.cjs']);
  const [{ host_port: hostPort }] = sandbox.ports as unknown as [{ host_port: string }];
  expect(await askUdp(hostPort, 'hello')).toContain('echo hello');
  killHostWorker();
  writeFileSync(inFolder(id, 'sandbox.json'), '');
  // A create is answered when the new host worker has taken over.
  const other = await api.createSandbox(small);
  expect(await askUdp(hostPort, 'hello')).toContain('echo hello');
  agent.close();
  await deleted(other.sandbox_id);
  await deleted(id);
}, 180_000);
