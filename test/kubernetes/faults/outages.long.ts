import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxInspection, SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import { until } from '../../support/until.ts';
import { CallFailed } from './driver-process.ts';
import { FaultyCluster } from './faulty-cluster.ts';

let faulty: FaultyCluster;

beforeAll(async () => {
  faulty = await FaultyCluster.start();
}, 300_000);
afterAll(() => faulty?.stop(), 120_000);

/** Expects that a call to the driver is refused. @returns the error */
async function refusal(call: Promise<unknown>): Promise<CallFailed> {
  try {
    await call;
  } catch (error) {
    if (error instanceof CallFailed) return error;
    throw error;
  }
  throw new Error('the call was not refused');
}

async function nothingIsLeft(): Promise<void> {
  await faulty.driver.call('reconcile', []);
  expect(await faulty.leftObjects(['quota' as SandboxId])).toEqual([]);
  expect(await faulty.disagreement()).toEqual([]);
}

test('with a full quota a create and a resume are refused with a reason, and both succeed when there is capacity again', async () => {
  const { driver, host, image } = faulty;
  const { namespace, core } = host;
  const paused = await host.spec(image);
  await driver.call('create', paused);
  await driver.call('pause', paused.sandboxId);
  const first = await host.spec(image);
  await driver.call('create', first);
  const name = 'quota';
  await core.createNamespacedResourceQuota({ namespace, body: { metadata: { name }, spec: { hard: { pods: '1' } } } });
  await until(async () => {
    const { status } = await core.readNamespacedResourceQuota({ namespace, name });
    return status?.used?.pods === '1';
  });
  const second = await host.spec(image);
  for (const refused of [
    await refusal(driver.call('create', second)),
    await refusal(driver.call('resume', { ...paused, run: 2 })),
  ]) {
    const { code, message } = refused;
    expect({ code, message }).toEqual({ code: 'no_capacity', message: expect.stringContaining('exceeded quota') });
  }
  expect(await faulty.disagreement()).toEqual([]);
  await core.deleteNamespacedResourceQuota({ namespace, name });
  await driver.call('create', second);
  await driver.call('resume', { ...paused, run: 2 });
  expect(await faulty.disagreement()).toEqual([]);
  await nothingIsLeft();
}, 300_000);

test('a missing image is a final error, an unreachable registry is a retryable one, and neither leaves objects', async () => {
  const { driver, host, cluster } = faulty;
  const missing = await host.spec(`${cluster.registry}/missing@sha256:${'0'.repeat(64)}`);
  expect(await refusal(driver.call('create', missing))).toMatchObject({ code: 'image_pull_failed', retryable: false });
  const image = await cluster.push('unseen', { bin: { content: Buffer.from('x'), mode: 0o644 } });
  await cluster.node.program('registry').kill('SIGKILL');
  const later = await host.spec(image);
  expect(await refusal(driver.call('create', later))).toMatchObject({ code: 'image_pull_failed', retryable: true });
  await cluster.startAgain('registry');
  await nothingIsLeft();
}, 300_000);

test('after a lost Node is deleted, its sandboxes end with the reason node_lost and can be removed', async () => {
  const { driver, host, cluster, image } = faulty;
  const specs: SandboxSpec[] = [await host.spec(image), await host.spec(image)];
  const [lost, removed] = specs as [SandboxSpec, SandboxSpec];
  for (const spec of specs) {
    const place = await driver.call<SandboxPlace>('create', spec);
    expect((await shell(place, spec, 'echo here')).output).toBe('here');
  }
  await cluster.node.program('kubelet').kill('SIGKILL');
  await cluster.node.program('containerd').kill('SIGKILL');
  const [node] = (await cluster.core.listNode()).items;
  // An operator or the cloud's controller does the same. The cluster then gives up the node's pods.
  await cluster.core.deleteNode({ name: node!.metadata!.name! });
  await until(() => specs.every(({ sandboxId }) => driver.ends.some((end) => end.sandboxId === sandboxId)), 240_000);
  for (const { sandboxId } of specs) {
    expect(driver.ends.filter((end) => end.sandboxId === sandboxId)).toEqual([
      { sandboxId, run: 1, reason: 'node_lost' },
    ]);
  }
  await until(async () => {
    const all = await driver.call<SandboxInspection[]>('list');
    return all.length === 2 && all.every(({ state }) => state === 'exited');
  });
  await driver.call('remove', removed.sandboxId);
  expect(await driver.call('inspect', removed.sandboxId)).toMatchObject({ state: 'absent' });
  await driver.call('stop', lost.sandboxId);
  expect(await driver.call('inspect', lost.sandboxId)).toMatchObject({ state: 'exited' });
  await driver.call('reconcile', []);
  expect(await faulty.leftObjects([])).toEqual([]);
}, 600_000);
