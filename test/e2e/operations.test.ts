import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { HostView } from '../../db/hosts/host-drains.ts';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { findHierarchies } from '../../runtime/machine/hierarchies.mjs';
import { runOperator } from '../support/operator.ts';
import { startPrometheus } from '../support/prometheus.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';

/** An operator's work on a running platform, through its real processes. */
const platform = new RunningPlatform();
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
const admin = (...args: string[]) => runOperator('admin', platform.dataDir, args);

async function theHost(): Promise<HostView> {
  const [host] = JSON.parse((await admin('list-hosts')).stdout) as HostView[];
  return host!;
}

test('a drained host pauses running sandboxes, refuses new ones, and accepts sandboxes again after the drain', async () => {
  const { sandbox_id: id } = await api.createSandbox(small);
  const { hostId, state, sandboxes } = await theHost();
  expect([state, sandboxes]).toEqual(['ready', { running: 1 }]);

  const drained = await admin('drain-host', '--host', hostId, '--pause', '--wait');
  expect(drained).toMatchObject({ code: 0, stderr: expect.stringContaining(`${hostId}: 1 paused`) });
  expect(JSON.parse(drained.stdout)).toMatchObject({ hostId, state: 'draining', sandboxes: { paused: 1 } });
  expect(await api.sandbox(id)).toMatchObject({ status: 'paused', reason: 'host_draining' });
  const refused = [
    await api.request('POST', '/v1/sandboxes', small),
    await api.request('POST', `/v1/sandboxes/${id}/resume`, {}),
    await api.request('POST', `/v1/sandboxes/${id}/connect`, {}),
  ];
  expect(refused.map(({ status, body }) => [status, body.code])).toEqual([
    [503, 'no_capacity'],
    [503, 'host_unavailable'],
    [503, 'host_unavailable'],
  ]);
  expect(await api.sandbox(id)).toMatchObject({ status: 'paused' });

  expect(JSON.parse((await admin('undrain-host', '--host', hostId)).stdout)).toMatchObject({ state: 'ready' });
  const resumed = await api.request('POST', `/v1/sandboxes/${id}/resume`, {});
  expect([resumed.status, (await api.sandbox(id)).status]).toEqual([200, 'running']);
  await api.deleteSandbox(id);
}, 180_000);

test('a key for an existing account works at once', async () => {
  const [account] = JSON.parse((await admin('list-accounts')).stdout);
  const made = JSON.parse((await admin('create-api-key', '--account', account.accountId)).stdout);
  const me = await platform.client(made.apiKey).request('GET', '/v1/users/me');
  expect([me.status, me.body.data]).toEqual([200, expect.objectContaining({ user_id: made.userId })]);
}, 180_000);

test('`workflow show` prints one decoded line per event, and Temporal accepts the list queries', async () => {
  // Without a caller that waits, the workflow starts the sandbox.
  const { sandbox_id: id } = await api.createSandbox({ ...small, timeout: 300, is_async: true });
  await api.untilStatus(id, 'running');
  const temporal = (...args: string[]) => runOperator('temporal', platform.dataDir, args);
  const shown = await temporal('workflow', 'show', '-w', id);
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  const lines = shown.stdout.trimEnd().split('\n');
  const findLines = (name: string) => lines.filter((line) => line.includes(name));
  const secrets = [platform.env.PLATFORM_API_KEY!, (await api.sandbox(id)).envd_access_token];
  for (const secret of secrets) expect(shown.stdout).not.toContain(secret);
  expect(findLines('WorkflowExecutionStarted')[0]).toMatch(new RegExp(`^ *1 .* sandbox +.*"sandboxId":"${id}"`));
  expect(findLines('ActivityTaskScheduled')[0]).toContain(`startSandbox on host/`);
  expect(findLines('ActivityTaskCompleted')[0]).toMatch(/startSandbox on host\/\S+ after \d+\.\d{3} s +→ \{"address":/);
  expect(findLines('recordRunning')).toHaveLength(1);
  expect(findLines('TimerStarted')[0]).toMatch(/TimerStarted +\S+s \(.+\)/);
  for (const line of lines) expect(line).toMatch(/^ *\d+ {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} {2}[A-Z]\w+/);

  const printed = await temporal('queries');
  const queries = [...printed.stdout.matchAll(/--query '(.+)'$/gm)].map(([, query]) => query!);
  expect(queries.length).toBeGreaterThan(5);
  for (const query of queries) {
    const counted = await temporal('workflow', 'count', '--query', query);
    expect({ query, ...counted }).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Total: \d+/) });
  }
  expect(printed.stdout).toContain(`${platform.env.TEMPORAL_UI_URL}/namespaces/default/workflows?query=`);
  await api.deleteSandbox(id);
}, 180_000);

/** The complete lines of a process's log. */
function readLog(name: string): Record<string, unknown>[] {
  const file = path.join(platform.dataDir, 'logs', `${name}.log`);
  const text = fs.readFileSync(file, 'utf8');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

test('one search by request or sandbox finds each move of a life in the logs of API, worker and host', async () => {
  const requestIds = { create: randomUUID(), pause: randomUUID(), connect: randomUUID(), end: randomUUID() };
  const send = (requestId: string, url: string, body: unknown) =>
    api.request<SandboxView>('POST', url, body, { 'X-Request-Id': requestId });
  const created = await send(requestIds.create, '/v1/sandboxes', small);
  const { sandbox_id: id } = created.body.data;
  await send(requestIds.pause, `/v1/sandboxes/${id}/pause`, {});
  await send(requestIds.connect, `/v1/sandboxes/${id}/connect`, {});
  await send(requestIds.end, `/v1/sandboxes/${id}/terminate`, {});
  await api.untilStatus(id, 'terminated');
  const findLines = (name: string, requestId: string) =>
    readLog(name)
      .filter((line) => line.workflow_id === id && line.request_id === requestId && line.level === 30)
      .map(({ msg, status, activity, outcome }) => [msg, status ?? activity, ...(outcome ? [outcome] : [])]);
  const moves: Record<keyof typeof requestIds, (string | number)[][][]> = {
    create: [
      [['request', 201]],
      [],
      [
        ['sandbox moved', 'starting'],
        ['sandbox moved', 'running'],
        ['work', 'startSandbox', 'completed'],
      ],
    ],
    pause: [
      [['request', 200]],
      [],
      [
        ['sandbox moved', 'pausing'],
        ['sandbox moved', 'paused'],
        ['work', 'pauseSandbox', 'completed'],
      ],
    ],
    connect: [
      [['request', 200]],
      [['sandbox moved', 'running']],
      [
        ['sandbox moved', 'resuming'],
        ['work', 'resumeSandbox', 'completed'],
      ],
    ],
    end: [
      [['request', 202]],
      [
        ['sandbox moved', 'terminating'],
        ['sandbox moved', 'terminated'],
      ],
      [
        ['work', 'stopSandbox', 'completed'],
        ['work', 'removeSandbox', 'completed'],
      ],
    ],
  };
  // Each process writes its own log, which may be later than its reply.
  for (const [kind, expected] of Object.entries(moves)) {
    const found = () => ['api', 'worker', 'host'].map((name) => findLines(name, requestIds[kind as 'create']));
    await until(() => found().every((lines, index) => lines.length >= expected[index]!.length));
    expect(found()).toEqual(expected);
  }
  // No request caused the drain at the beginning.
  const drained = readLog('worker').filter((line) => line.msg === 'sandbox moved' && line.reason === 'host_draining');
  expect(drained).toEqual([expect.objectContaining({ status: 'paused', from: 'pausing', level: 30 })]);
  expect(drained[0]).not.toHaveProperty('request_id');
}, 180_000);

/** Names of metrics in a PromQL expression. */
const metricsIn = (expression: string) => [
  ...expression.replaceAll(/\b(by|on) \([^)]*\)/g, '').matchAll(/\b([a-z][a-z0-9_]*)(?=[{[)]| [=<>]|$)/g),
];

test('Prometheus scrapes every process, and every panel of the dashboard has data; no label names a tenant', async () => {
  const { sandbox_id: id } = await api.createSandbox(small);
  const prometheus = await startPrometheus(platform.dataDir);
  try {
    await until(async () => (await prometheus.query('up{job="sandbox-platform"} == 1')).length === 4);
    // A rate needs two scrapes.
    await until(async () => (await prometheus.query('rate(process_cpu_seconds_total[1m])')).length >= 4);
    const monitoring = path.resolve(import.meta.dirname, '../../ops/monitoring');
    const dashboard = JSON.parse(fs.readFileSync(path.join(monitoring, 'dashboard.json'), 'utf8'));
    const panels = dashboard.panels as { title: string; targets?: { expr: string }[] }[];
    const shown = panels
      .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
      // Version 1 of control groups has no such figures.
      .filter((expr) => expr !== 'host_sandboxes_pressure_ratio' || findHierarchies().version === 2);
    const alerts = [
      ...fs.readFileSync(path.join(monitoring, 'alerts.yml'), 'utf8').matchAll(/expr: (?:'(.+)'|"(.+)")$/gm),
    ];
    expect([shown.length > 20, alerts.length > 15]).toEqual([true, true]);
    const found = async (expression: string) => (await prometheus.query(expression)).length;
    // If a busy machine answers a scrape too late, the values of the previous one are missing until the next one.
    const isFound = (expression: string) =>
      until(async () => (await found(expression)) > 0).catch((cause) => {
        throw new Error(`no data: ${expression}`, { cause });
      });
    for (const expr of shown) await isFound(expr);
    const names = new Set(
      alerts.flatMap(([, single, double]) => metricsIn((single ?? double)!).map(([, name]) => name!)),
    );
    expect(names.size).toBeGreaterThan(12);
    // The SDK shows it after the first failure: `test/worker/bad-deploy.test.ts`.
    expect(names.delete('temporal_workflow_task_execution_failed_total')).toBe(true);
    for (const name of names) await isFound(`count({__name__="${name}"})`);
    await until(async () => {
      const running = await prometheus.query('max(sandboxes{status="running"})');
      return running.map(({ value }) => value[1]).join() === '1';
    });
    await until(async () => (await found('{job="sandbox-platform"}')) > 300);
    const series = await prometheus.query('{job="sandbox-platform"}');
    const tenants = series.filter(({ metric }) =>
      Object.values(metric).some((label) => /\b(acc|usr|prj|sbx|key|whd)-/.test(label)),
    );
    expect(tenants).toEqual([]);
  } finally {
    await prometheus.stop();
  }
  const targets = JSON.parse(fs.readFileSync(path.join(platform.dataDir, 'prometheus/targets.json'), 'utf8'));
  for (const {
    targets: [target],
  } of targets)
    expect((await fetch(`http://${target}/metrics`)).status).toBe(401);
  await api.deleteSandbox(id);
}, 180_000);
