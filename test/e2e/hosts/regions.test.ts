import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sandboxNetworks } from '../../../db/hosts/hosts.ts';
import { createOrm } from '../../../db/orm.ts';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform, removeHostRemains } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';

/** Two hosts in two regions, each with its own folder, network and containers, behind one API and one gateway. */
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_REGION: 'north',
  PLATFORM_REGION_NAME: 'The North',
  PLATFORM_REGION_HEADER: 'X-Edge-Region',
});
const secondDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-e2e-'));
let second: ChildProcess;
let api: PlatformClient;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
  second = spawn(process.execPath, ['worker/host.ts'], {
    cwd: path.resolve(import.meta.dirname, '../../..'),
    env: {
      ...process.env,
      ...runningPlatformEnv(platform.dataDir, {}),
      NODE_OPTIONS: '',
      PLATFORM_DATA_DIR: secondDir,
      PLATFORM_REGION: 'south',
      PLATFORM_REGION_NAME: 'The South',
    },
    stdio: 'ignore',
  });
  // At the rate that an anonymous caller may use.
  await until(async () => (await regions()).length === 2, 120_000, 500);
}, 180_000);

afterAll(async () => {
  if (second.exitCode === null) {
    const ended = once(second, 'exit');
    second.kill('SIGTERM');
    await ended;
  }
  await platform.stop();
  await platform.hostRemains();
  await removeHostRemains(secondDir);
  platform.removeData();
  fs.rmSync(secondDir, { recursive: true, force: true });
}, 180_000);

const regions = async () =>
  (await platform.client(null).request<{ platform_regions: unknown[] }>('GET', '/v1/platform-regions')).body.data
    .platform_regions;

async function createIn(locality: object, headers: Record<string, string> = {}): Promise<SandboxView> {
  const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 1, locality };
  const { status, body } = await api.request<SandboxView>('POST', '/v1/sandboxes', wanted, headers);
  expect([status, body.data?.status]).toEqual([201, 'running']);
  return api.sandbox(body.data.sandbox_id);
}

test('every caller may list the regions of live hosts', async () => {
  expect(await regions()).toEqual([
    { id: 'north', name: 'The North' },
    { id: 'south', name: 'The South' },
  ]);
});

test('a sandbox runs in the requested region, is reached through the same gateway, and stays there after a pause', async () => {
  const made = [
    await createIn({ region: 'south', force: true }),
    await createIn({ auto_detect: true }, { 'X-Edge-Region': 'south' }),
    await createIn({}),
  ];
  expect(made.map((each) => each.region)).toEqual(['south', 'south', 'north']);
  for (const sandbox of made) {
    const agent = platform.agent(sandbox);
    expect((await agent.run('hostname')).stdout).toBe(`${sandbox.sandbox_id}\n`);
    agent.close();
  }
  const [south] = made;
  await api.request('POST', `/v1/sandboxes/${south!.sandbox_id}/pause`, {});
  const resumed = await api.request<SandboxView>('POST', `/v1/sandboxes/${south!.sandbox_id}/resume`, {});
  expect(resumed.body.data).toMatchObject({ status: 'running', region: 'south' });
  await Promise.all(made.map((each) => api.deleteSandbox(each.sandbox_id)));
}, 180_000);

test('a region without a live host is not listed: forced it is 409, otherwise the other one is used', async () => {
  const ended = once(second, 'exit');
  second.kill('SIGTERM');
  await ended;
  expect(await regions()).toEqual([{ id: 'north', name: 'The North' }]);
  const refused = await api.request('POST', '/v1/sandboxes', { locality: { region: 'south', force: true } });
  expect([refused.status, refused.body.code]).toEqual([409, 'locality_constraint_failed']);
  const unknown = await api.request('POST', '/v1/sandboxes', { locality: { region: 'east' } });
  expect([unknown.status, unknown.body.code]).toEqual([400, 'invalid_region']);
  const elsewhere = await createIn({ region: 'south' });
  expect(elsewhere.region).toBe('north');
  await api.deleteSandbox(elsewhere.sandbox_id);
}, 180_000);

test('each host records the network of its sandboxes, which webhooks cannot reach', async () => {
  const orm = await createOrm(runningPlatformEnv(platform.dataDir, {}).DATABASE_URL!, 1);
  const networks = await sandboxNetworks(orm.em);
  await orm.close();
  expect(networks).toEqual([expect.stringMatching(/^10\..+\/20$/), expect.stringMatching(/^10\..+\/20$/)]);
});
