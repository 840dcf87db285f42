import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { operatorTokens } from '../../platform/config/secrets.ts';
import { ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
import { type ControlPlane, startControlPlane, testSecretKey } from '../support/control-plane.ts';
import { freePort } from '../support/free-port.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { temporalAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** A release whose workflows do not fit the histories of running sandboxes, in the process of a control worker. */
const root = path.resolve(import.meta.dirname, '../..');
const caches = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-test-deploys-'));
let plane: ControlPlane;
let api: TestApi;
let worker: ChildProcess | undefined;

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro' });
  api = await startApi({ on: { orm: plane.orm, account: plane.account, commands: plane.commands } });
}, 120_000);
afterAll(async () => {
  await stopWorker();
  await api?.stop();
  await plane?.stop();
  fs.rmSync(caches, { recursive: true });
});

/** @param alter what the release has done to the code of the workflows */
async function deploy(alter: (code: string) => string): Promise<number> {
  await stopWorker();
  const cache = fs.mkdtempSync(path.join(caches, 'cache-'));
  const bundle = await ensureWorkflowBundle(cache);
  fs.writeFileSync(bundle, alter(fs.readFileSync(bundle, 'utf8')));
  const metricsPort = await freePort();
  const child = spawn(process.execPath, ['worker/control.ts'], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      PLATFORM_SECRET_KEY: testSecretKey,
      DATABASE_URL: plane.settings.DATABASE_URL,
      TEMPORAL_ADDRESS: await temporalAddress(),
      TEMPORAL_NAMESPACE: plane.client.options.namespace,
      PLATFORM_DATA_DIR: plane.settings.PLATFORM_DATA_DIR,
      PLATFORM_CACHE_DIR: cache,
      PLATFORM_WORKER_METRICS_PORT: String(metricsPort),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  worker = child;
  let output = '';
  for await (const chunk of child.stdout!.iterator({ destroyOnReturn: false })) {
    output += chunk;
    if (output.includes('"msg":"ready"')) break;
  }
  child.stdout!.resume();
  return metricsPort;
}

async function stopWorker(): Promise<void> {
  if (!worker || worker.exitCode !== null || worker.signalCode !== null) return;
  const ended = once(worker, 'exit');
  worker.kill('SIGKILL');
  await ended;
}

async function metricsAt(port: number): Promise<string> {
  const [metricsToken] = operatorTokens({ PLATFORM_SECRET_KEY: testSecretKey }).metrics;
  const reply = await fetch(`http://127.0.0.1:${port}/metrics`, {
    headers: { authorization: `Bearer ${metricsToken}` },
  });
  return reply.text();
}

test('commands say that the workflow fails, a metric counts it, and the earlier release mends it', async () => {
  const { body } = await api.send(api.root, 'POST', '/v1/sandboxes', { timeout: 3600 });
  const url = `/v1/sandboxes/${body.data.sandbox_id}`;
  const before = plane.controls[0]!;
  for (const each of before) each.shutdown();
  await until(() => before.every((each) => each.getState() === 'STOPPED'));

  const port = await deploy((code) => code.replaceAll('startSandbox', 'startSandboxAnew'));
  await until(async () => {
    const refused = await api.send(api.root, 'POST', `${url}/pause`);
    expect(refused.status).toBe(503);
    return refused.body.code === 'workflow_failing';
  });
  const refused = await api.send(api.root, 'POST', `${url}/pause`);
  expect([refused.body.code, Number(refused.headers['retry-after'])]).toEqual(['workflow_failing', 60]);
  expect(api.log.filter((line) => line.includes('workflow_failing'))).not.toEqual([]);
  const failures = /^temporal_workflow_task_execution_failed_total\{.*failure_reason="NonDeterminismError".*\} [1-9]/m;
  await until(async () => failures.test(await metricsAt(port)));
  expect(await metricsAt(port)).toMatch(/^temporal_up 1$/m);

  const healthy = await deploy((code) => code);
  // Temporal waits longer and longer between the attempts at a failing task. One of the earlier commands may arrive late.
  await until(async () => {
    await api.send(api.root, 'POST', `${url}/pause`);
    return (await plane.row(body.data.sandbox_id)).status === 'paused';
  }, 240_000);
  expect(await metricsAt(healthy)).toMatch(/^temporal_up 1$/m);
});
