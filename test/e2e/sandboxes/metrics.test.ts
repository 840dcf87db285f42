import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { PlatformClient, SandboxView } from '../../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform } from '../../support/running-platform.ts';
import { until } from '../../support/until.ts';

/** The platform's data about a real sandbox: its use, its averages, its last access, its host. */
const platform = await RunningPlatform.onSharedServers({
  PLATFORM_SANDBOX_BANDWIDTH_MBPS: '250',
  PLATFORM_SANDBOX_PROXY_URL: 'http://someone:pass%20word@127.0.0.9:3128',
});
let api: PlatformClient;
let database: Client;
let sandbox: SandboxView;
/** It has the shortest timeout, which expires during the other tests. */
let ending: SandboxView;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
  database = new Client({ connectionString: runningPlatformEnv(platform.dataDir, {}).DATABASE_URL });
  await database.connect();
  ending = await api.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1, timeout: 60 });
  sandbox = await api.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1, env_vars: { NO_PROXY: 'mine' } });
}, 180_000);

afterAll(async () => {
  await database?.end();
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}, 180_000);

interface Metrics {
  status: string;
  uptime_seconds: number;
  error?: string;
  metrics: {
    timestamp: string;
    cpu_count: number;
    cpu_used_pct: number;
    mem_used: number;
    mem_total: number;
    disk_used: number;
    disk_total: number;
  }[];
}
const readMetrics = async (query = '') =>
  (await api.request<Metrics>('GET', `/v1/sandboxes/${sandbox.sandbox_id}/metrics${query}`)).body.data;

/**
 * Sums the processor time of all steps. A step begins at the previous one: five seconds earlier or, on a busy machine,
 * more.
 */
function processorSeconds(items: Metrics['metrics']): number {
  return items.slice(1).reduce((sum, item, index) => {
    const seconds = (Date.parse(item.timestamp) - Date.parse(items[index]!.timestamp)) / 1000;
    return sum + (seconds * item.cpu_used_pct) / 100;
  }, 0);
}

test('a sandbox’s use is in its metrics within seconds, every five seconds', async () => {
  const agent = platform.agent(sandbox);
  await agent.run('sh', ['-c', 'head -c 50M /dev/urandom > /dev/shm/held; head -c 100M /dev/zero > /root/file; sync']);
  // The first sample of a sandbox is the base of the next one.
  await until(async () => (await readMetrics()).metrics.length > 0);
  const usedBefore = processorSeconds((await readMetrics()).metrics);
  const { stderr } = await agent.run('bash', ['-c', `TIMEFORMAT='%U %S'; time timeout 12 sh -c 'while :; do :; done'`]);
  // The kernel's figure inside. On a busy machine it is less than the twelve seconds.
  const usedSeconds = stderr
    .trim()
    .split(' ')
    .reduce((sum, each) => sum + Number(each), 0);
  expect(usedSeconds).toBeGreaterThan(1);
  const measured = async () => processorSeconds((await readMetrics()).metrics) - usedBefore;
  // A busy host takes samples late, so the work at both ends may be counted in a step more or less.
  await until(async () => (await measured()) > usedSeconds / 2);
  expect(await measured()).toBeLessThan(usedSeconds + 10);
  const { metrics, status, uptime_seconds: uptime, error } = await readMetrics();
  expect([status, error]).toEqual(['running', undefined]);
  expect(uptime).toBeGreaterThan(10);
  const mib = 1024 ** 2;
  const last = metrics.at(-1)!;
  expect(last).toMatchObject({ cpu_count: 1, mem_total: 256 * mib });
  expect(last.mem_used).toBeGreaterThan(50 * mib);
  expect(last.mem_used).toBeLessThan(200 * mib);
  expect(last.disk_used).toBeGreaterThanOrEqual(100 * mib);
  expect(last.disk_used).toBeLessThan(130 * mib);
  const { stdout } = await agent.run('df', ['-B1', '--output=size', '/']);
  expect(last.disk_total).toBe(Number(stdout.split('\n')[1]));
  for (const [index, item] of metrics.entries()) {
    const at = Date.parse(item.timestamp);
    expect(at % 5000).toBe(0);
    if (index > 0) expect(at - Date.parse(metrics[index - 1]!.timestamp)).toBeGreaterThanOrEqual(5000);
  }
  const { body: stats } = await api.request('GET', '/v1/sandboxes/stats');
  expect(stats.data.running_sandboxes).toBeGreaterThanOrEqual(1);
  expect(stats.data.avg_cpu_usage).toBeGreaterThan(1);
  expect(stats.data.avg_memory_usage).toBeGreaterThan(10);
  expect(stats.data.total_uptime_hours).toBeGreaterThan(0.002);
  const { body: chart } = await api.request<{ metrics: Record<string, unknown[]>; reference_limits: object }>(
    'GET',
    `/v1/sandboxes/${sandbox.sandbox_id}/metrics/chart?step=5s`,
  );
  expect(chart.data.metrics.cpu_usage!.length).toBeGreaterThanOrEqual(metrics.length);
  agent.close();
}, 180_000);

test('nothing is measured while it is paused', async () => {
  await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/pause`, {});
  const paused = await api.sandbox(sandbox.sandbox_id);
  const seconds = Math.ceil(Date.parse(paused.paused_at as string) / 5000) * 5;
  // Two samples of the host, and the time to store them.
  await delay(Math.max(0, (seconds + 11) * 1000 - Date.now()));
  const since = await readMetrics(`?start=${seconds + 1}&end=${seconds + 600}`);
  expect(since).toMatchObject({ status: 'paused', metrics: [], error: expect.any(String) });
  await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/resume`, {});
}, 180_000);

test('its network has the operator’s limit and proxy, inside and in the object', async () => {
  const { resources, network_proxy: proxy } = await api.sandbox(sandbox.sandbox_id);
  expect(resources).toEqual({ cpu: 1, memory: 256, storage: 1, bandwidth: 250 });
  const url = 'http://someone:pass%20word@127.0.0.9:3128';
  expect(proxy).toEqual({
    proxy_url: url,
    proxy_configs: { host: '127.0.0.9', port: 3128, username: 'someone', password: 'pass word' },
  });
  const agent = platform.agent(sandbox);
  const { stdout } = await agent.run('sh', ['-c', 'echo "$HTTP_PROXY $https_proxy $NO_PROXY $no_proxy"']);
  // The sandbox's own variable takes precedence over the platform's.
  expect(stdout).toBe(`${url} ${url} mine localhost,127.0.0.1,::1\n`);
  agent.close();
  const closed = await api.createSandbox({
    ...{ cpu_count: 1, memory_mb: 256, storage_gb: 1 },
    allow_internet_access: false,
  });
  expect(closed.network_proxy).toBeUndefined();
  const inside = platform.agent(closed);
  expect((await inside.run('sh', ['-c', 'echo "[$HTTP_PROXY]"'])).stdout).toBe('[]\n');
  inside.close();
  await api.deleteSandbox(closed.sandbox_id);
}, 180_000);

test('its last access is the minute of the last request through the gateway', async () => {
  const agent = platform.agent(sandbox);
  const before = Math.floor(Date.now() / 60_000) * 60_000;
  await agent.request('/health');
  const after = Math.floor(Date.now() / 60_000) * 60_000;
  agent.close();
  // A gateway records accesses when it stops, and otherwise each minute.
  const [gateway] = platform.findPids('gateway/server.ts');
  process.kill(gateway!, 'SIGTERM');
  let at = Number.NaN;
  // Accesses of earlier tests may have been recorded in an earlier minute.
  await until(async () => {
    at = Date.parse((await api.sandbox(sandbox.sandbox_id)).last_accessed_at as string);
    return at >= before;
  });
  expect([before, after]).toContain(at);
  await until(() => platform.findPids('gateway/server.ts').some((pid) => pid !== gateway));
}, 180_000);

test('its object shows its present project, and each move between projects is an event', async () => {
  const made = await api.request<{ project_id: string }>('POST', '/v1/projects', { name: 'measured' });
  const project = made.body.data.project_id;
  const home = sandbox.project_id;
  const path = (action: string) => `/v1/projects/${project}/sandboxes/${sandbox.sandbox_id}/${action}`;
  const readProject = async () => (await api.sandbox(sandbox.sandbox_id)).project_id;
  expect((await api.request('POST', path('add'))).body.data).toMatchObject({ previous_project: home });
  expect(await readProject()).toBe(project);
  expect((await api.request('POST', path('evict'))).body.data).toMatchObject({ project_id: home });
  expect(await readProject()).toBe(home);
  await api.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/switch-project`, { project_id: project });
  expect((await api.sandbox(sandbox.sandbox_id)).project_name).toBe('measured');
  const { rows } = await database.query(
    "select data from events where object_id = $1 and type = 'sandbox.project_switched' order by sequence",
    [sandbox.sandbox_id],
  );
  expect(rows.map((row) => row.data.project_id)).toEqual([project, home, project]);
  expect(rows[0].data).toMatchObject({ sandbox_id: sandbox.sandbox_id, status: 'running', reason: 'user_requested' });
});

test('a timeout applies to the current phase, or to the next one while paused', async () => {
  const id = sandbox.sandbox_id;
  const timeout = (seconds: number) => api.request('POST', `/v1/sandboxes/${id}/timeout`, { timeout: seconds });
  const now = await timeout(600);
  expect(now.body.data).toMatchObject({ timeout: 600, applies_to: 'current_phase', note: expect.any(String) });
  expect(now.body.data.remaining_time).toBeGreaterThan(400);
  expect(now.body.data.timeout_at).toBe((await api.sandbox(id)).timeout_at);
  await api.request('POST', `/v1/sandboxes/${id}/pause`, {});
  const paused = await api.sandbox(id);
  const days = paused.persistence_days as number;
  expect(days).toBeGreaterThan(0);
  expect(paused.persistence_days_remaining).toBe(days);
  expect(Date.parse(paused.persistence_expires_at as string) - Date.parse(paused.paused_at as string)).toBe(
    days * 86_400_000,
  );
  const next = await timeout(900);
  expect(next.body.data).toMatchObject({ timeout: 900, applies_to: 'next_phase', timeout_at: null });
  const resumed = await api.request<SandboxView>('POST', `/v1/sandboxes/${id}/resume`, {});
  expect(resumed.body.data.remaining_seconds).toBeGreaterThan(800);
  expect(resumed.body.data.remaining_seconds).toBeLessThanOrEqual(900);
  await api.deleteSandbox(id);
}, 180_000);

test("the warning before a timeout is stored for its owner, with the time of the workflow's clock", async () => {
  const id = ending.sandbox_id;
  const notified = async () =>
    (await database.query('select * from notifications where related_entity_id = $1', [id])).rows;
  await until(async () => (await notified()).length > 0, 90_000);
  const [row] = await notified();
  expect(row).toMatchObject({
    type: 'sandbox_timeout',
    category: 'sandbox',
    related_entity_type: 'sandbox',
    is_read: false,
    title: expect.any(String),
  });
  expect(row.id).toMatch(/^ntf-/);
  expect([row.account_id, row.user_id]).toEqual([expect.stringMatching(/^acc-/), expect.stringMatching(/^usr-/)]);
  expect(row.message).toMatch(/will be terminated at .* in 15 seconds/);
  await api.deleteSandbox(id);
}, 180_000);
