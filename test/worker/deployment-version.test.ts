import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { pino } from 'pino';
import type { UserId } from '../../domain/ids.ts';
import { workerVersionCommands } from '../../ops/operator/admin/worker-version-commands.ts';
import { WorkerDeployment } from '../../platform/temporal/worker-deployment.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { takeFirstWork, workerVersion } from '../../worker/deployment-version.ts';
import { hashSources } from '../../worker/workflow-bundle.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { temporalAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** Workers without a version, then two versions of them in parallel, while workflows are open. */
const deploymentName = 'test';
const [first, second] = ['1', '2'].map((buildId) => ({ deploymentName, buildId })) as [Version, Version];
type Version = { deploymentName: string; buildId: string };
const silent = pino({ level: 'silent' });

let plane: ControlPlane;
let deployment: WorkerDeployment;
beforeAll(async () => {
  const env = { PLATFORM_WORKER_DEPLOYMENT: deploymentName };
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'enterprise', relay: false, env });
  deployment = new WorkerDeployment(plane.client, deploymentName);
}, 120_000);
afterAll(() => plane?.stop());

async function admin(name: string, values: Record<string, string> = {}): Promise<unknown> {
  const { orm, plans, client, settings } = plane;
  const temporal = { TEMPORAL_ADDRESS: await temporalAddress(), TEMPORAL_NAMESPACE: client.options.namespace };
  return workerVersionCommands[name]!.run({ orm, plans, settings: { ...settings, ...temporal }, env: {} }, values);
}

/** The version of the worker that did its last task, or null. */
async function readVersion(handle: WorkflowHandle): Promise<string | null> {
  const { raw } = await handle.describe();
  return raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion?.buildId ?? null;
}

async function running() {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  return { sandboxId: sandbox.sandboxId, handle: plane.client.workflow.getHandle(sandbox.sandboxId) };
}

/** Waits half an hour for the use of its link, and is pinned. */
function waitingReset(userId: string): Promise<WorkflowHandle> {
  const input = { accountId: plane.account.accountId, userId: userId as UserId };
  return plane.client.workflow.start('passwordReset', startOptions('passwordReset', userId, input));
}

const isOfVersion = (handle: WorkflowHandle, buildId: string) =>
  until(async () => (await readVersion(handle)) === buildId);

test('versions replace workers without one, then each other, and pinned workflows stay until they are released', async () => {
  const old = await running();
  expect(await deployment.versions()).toEqual([]);

  const workersOne = await plane.addControl(first);
  await takeFirstWork(plane.client, first, silent, AbortSignal.timeout(120_000));
  expect(await admin('list-worker-versions')).toEqual([
    { buildId: '1', status: 'current', pinnedWorkflows: 0, currentSince: expect.stringMatching(/^20/) },
  ]);
  for (const each of plane.controls[0]!) each.shutdown();
  await plane.commands.pause(await plane.row(old.sandboxId), { wait: true });
  expect(await readVersion(old.handle)).toBe('1');
  const pinned = await waitingReset(plane.account.userId);
  await isOfVersion(pinned, '1');

  await plane.addControl(second);
  await until(async () => (await deployment.versions()).length === 2);
  // Its start changes nothing, because the operator decides when it is used.
  await takeFirstWork(plane.client, second, silent, AbortSignal.timeout(120_000));
  expect(await deployment.versions()).toEqual([
    { buildId: '2', status: 'inactive', pinnedWorkflows: 0, currentSince: null },
    expect.objectContaining({ buildId: '1', status: 'current' }),
  ]);
  const between = await running();
  expect(await readVersion(between.handle)).toBe('1');

  await admin('set-worker-version', { build: '2' });
  await plane.commands.resume(await plane.row(old.sandboxId), { wait: true });
  await plane.commands.pause(await plane.row(between.sandboxId), { wait: true });
  const after = await running();
  for (const { handle } of [old, between, after]) expect(await readVersion(handle)).toBe('2');
  await until(async () => {
    const [, before] = await deployment.versions();
    return before!.pinnedWorkflows === 1 && before!.status === 'draining';
  });
  expect(await deployment.versions()).toEqual([
    { buildId: '2', status: 'current', pinnedWorkflows: 0, currentSince: expect.stringMatching(/^20/) },
    { buildId: '1', status: 'draining', pinnedWorkflows: 1, currentSince: null },
  ]);
  // An activity of a host, which has no version, for a workflow that is pinned.
  await plane.commands.terminate(await plane.row(after.sandboxId), { forget: false });
  await after.handle.result();
  await plane.commands.terminate(await plane.row(after.sandboxId), { forget: true });
  expect(await readVersion(plane.client.workflow.getHandle(`${after.sandboxId}/deletion`))).toBe('2');

  expect(await readVersion(pinned)).toBe('1');
  for (const each of workersOne) each.shutdown();
  expect(await admin('release-pinned-workflows', { build: '1' })).toEqual({ released: 1 });
  await pinned.signal('passwordSet');
  await pinned.result();
  expect(await readVersion(pinned)).toBe('2');
  await until(async () => (await deployment.versions())[1]!.pinnedWorkflows === 0);
}, 300_000);

test('an operator who names no version, or an unknown one, gets the names of the existing ones', async () => {
  await expect(admin('set-worker-version')).rejects.toThrow('--build is missing');
  await expect(admin('set-worker-version', { build: '3' })).rejects.toThrow(/3; there are: (1|2), (1|2)$/);
  await expect(admin('release-pinned-workflows', { build: '3' })).rejects.toThrow('there are');
  const { PLATFORM_WORKER_DEPLOYMENT: _, ...settings } = plane.settings;
  await expect(
    workerVersionCommands['list-worker-versions']!.run({ ...plane, settings: settings as never, env: {} }, {}),
  ).rejects.toThrow('PLATFORM_WORKER_DEPLOYMENT is not set');
});

test('a version is named after the release and the sources of its workflows', () => {
  expect(workerVersion({ PLATFORM_WORKER_DEPLOYMENT: undefined })).toBeNull();
  const { buildId } = workerVersion({ PLATFORM_WORKER_DEPLOYMENT: 'platform' })!;
  expect(buildId).toMatch(/^\d+\.\d+\.\d+-[0-9a-f]{12}$/);
  expect(hashSources().startsWith(buildId.split('-')[1]!)).toBe(true);
});
