import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { AggregatorRegistry, Registry } from 'prom-client';
import { auditedRequest, recordAudit } from '../../db/accounts/audit-events.ts';
import { createOrm } from '../../db/orm.ts';
import { readPlatformFigures } from '../../db/upkeep/platform-figures.ts';
import { showCertificates } from '../../gateway/certificate-metrics.ts';
import { serveMetrics } from '../../platform/monitoring/metrics-server.ts';
import { PlatformGauges } from '../../platform/monitoring/platform-gauges.ts';
import { createProcessRegistry } from '../../platform/monitoring/process-metrics.ts';
import { createTemporalGauge } from '../../platform/monitoring/temporal-gauge.ts';
import { testDatabase } from '../support/stack.ts';

const root = path.resolve(import.meta.dirname, '../..');
const folder = path.join(root, 'ops/monitoring');
const run = promisify(execFile);
const promtool = (...args: string[]) =>
  run('promtool', args, { cwd: folder }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    ({ code, stdout, stderr }) => ({ code, output: stdout + stderr }),
  );
const alertNames = () =>
  [...fs.readFileSync(path.join(folder, 'alerts.yml'), 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);

test('promtool accepts the alert rules', async () => {
  const checked = await promtool('check', 'rules', 'alerts.yml');
  expect(checked).toMatchObject({ code: 0, output: expect.stringContaining(`${alertNames().length} rules found`) });
});

test('each alert fires for its problem, and none fires without problems', async () => {
  const files = fs.readdirSync(folder).filter((name) => name.endsWith('.test.yml'));
  const cases = files.map((name) => fs.readFileSync(path.join(folder, name), 'utf8')).join('');
  for (const name of alertNames()) {
    expect(cases).toContain(`- name: ${name}\n`);
    expect(cases).toContain(`{ eval_time: 35m, alertname: ${name} }`);
  }
  expect(await promtool('test', 'rules', ...files)).toMatchObject({ code: 0 });
});

test('each alert has a runbook, and each runbook has an alert', () => {
  const page = fs.readFileSync(path.join(root, 'docs/operations.md'), 'utf8');
  const runbooks = [...page.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  expect(runbooks).toEqual(alertNames());
});

test('metrics are served only with the token, and a failed collection is an error', async () => {
  let fails = false;
  const errors: unknown[] = [];
  const server = await serveMetrics({
    host: '127.0.0.1',
    port: 0,
    tokens: ['the-token', 'the-former-token'],
    collect: async () => {
      if (fails) throw new Error('no figures');
      return 'up 1\n';
    },
    onError: (error) => errors.push(error),
  });
  try {
    const ask = (headers: http.OutgoingHttpHeaders, target = '/metrics', method = 'GET') =>
      new Promise<number>((resolve, reject) => {
        const options = { host: '127.0.0.1', port: server!.port, path: target, method, headers, agent: false };
        const request = http.request(options, (reply) => {
          reply.resume();
          resolve(reply.statusCode!);
        });
        request.once('error', reject);
        request.end();
      });
    const token = { authorization: 'Bearer the-token' };
    expect(await ask(token)).toBe(200);
    expect(await ask({ authorization: 'Bearer the-former-token' })).toBe(200);
    expect(await ask({})).toBe(401);
    expect(await ask({ authorization: 'Bearer the-tokem' })).toBe(401);
    expect(await ask(token, '/other')).toBe(404);
    expect(await ask({ ...token, 'content-length': 5 }, '/metrics', 'POST')).toBe(413);
    fails = true;
    expect(await ask(token)).toBe(500);
    expect(errors).toEqual([new Error('no figures')]);
  } finally {
    await server!.close();
  }
});

test('unreadable figures are absent, not old, until they can be read again', async () => {
  const registry = createProcessRegistry(null);
  const figures = {
    sandboxes: { running: 3 },
    hosts: { ready: 1 },
    outbox: { waiting: 0, dead: 1, oldestSeconds: 0 },
    webhooks: { waiting: 0, oldestDueSeconds: 0, delivered: 0, failed: 0, disabledEndpoints: 0 },
    importJobs: {},
    reconciliation: null,
    usageRefused: 0,
    backup: null,
  };
  let answer = Promise.resolve(figures);
  const gauges = new PlatformGauges(
    registry,
    () => answer,
    () => undefined,
  );
  const shown = async () => {
    await gauges.refresh();
    return (await registry.metrics())
      .split('\n')
      .filter((line) => /^(sandboxes|platform_figures_up|outbox_oldest)/.test(line));
  };
  const good = ['platform_figures_up 1', 'sandboxes{status="running"} 3', 'outbox_oldest_seconds 0'];
  expect(await shown()).toEqual(good);
  answer = Promise.reject(new Error('no database'));
  expect(await shown()).toEqual(['platform_figures_up 0']);
  answer = Promise.resolve(figures);
  expect(await shown()).toEqual(good);
});

test('Temporal counts as away when it does not answer, and as there when it does', async () => {
  const answers: (() => Promise<unknown>)[] = [
    () => Promise.resolve({}),
    () => Promise.reject(new Error('unavailable')),
    () => new Promise(() => {}),
  ];
  for (const [ask, shown] of answers.map((each, index) => [each, index === 0 ? 1 : 0] as const)) {
    const registry = new Registry();
    createTemporalGauge(registry, ask);
    expect(await registry.metrics()).toContain(`\ntemporal_up ${shown}\n`);
  }
});

test('of several processes with a certificate, the earliest expiry is shown', async () => {
  const processes = ['2027-01-02', '2027-01-01'].map((day) => {
    const registry = new Registry();
    showCertificates(registry, { gateway: () => new Date(`${day}T00:00:00Z`), last_hop_host: () => null });
    return registry;
  });
  const figures = await Promise.all(processes.map((registry) => registry.getMetricsAsJSON()));
  const all = await AggregatorRegistry.aggregate(figures).metrics();
  const expected = Date.parse('2027-01-01T00:00:00Z') / 1000;
  expect(all).toContain(`certificate_expires_seconds{certificate="gateway"} ${expected}\n`);
  expect(all).toContain('certificate_expires_seconds{certificate="last_hop_host"} 0\n');
});

test('the last complete backup is a figure, and a begun one is not', async () => {
  const database = await testDatabase();
  const orm = await createOrm(database.url, 2);
  const backup = async () => (await readPlatformFigures(orm.em)).backup;
  const noUser = { accountId: null, userId: null, keyId: null, sessionId: null };
  const command = { ...noUser, address: 'root@test', requestId: 'req-1', action: 'backup', isRecorded: false };
  // As the command records the drain of the host, and itself when it is complete.
  const record = (objectId: string | null) =>
    auditedRequest.run(command, () =>
      recordAudit(orm.em.fork(), { accountId: null, objectId, before: null, after: { is: 'so' } }),
    );
  try {
    await record('host-a');
    expect(await backup()).toBeNull();
    await record(null);
    expect(await backup()).toEqual({ endedAt: expect.any(Date) });
  } finally {
    await orm.close();
    await database.drop();
  }
});
