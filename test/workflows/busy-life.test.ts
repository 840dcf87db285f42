import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { SandboxLifeRepository } from '../../db/repositories/sandbox-life.ts';
import { createDataConverter } from '../../temporal/data-converter.ts';
import { ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';

let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane?.stop());

test('the history of a sandbox that gets many commands at once replays on another worker', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  let timeoutSeconds = 600;
  const changes = (count: number) =>
    Array.from({ length: count }, () => {
      timeoutSeconds += 1;
      return plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
    });
  for (let round = 0; round < 25; round++) {
    await Promise.allSettled([plane.commands.pause(sandbox, { wait: true }), ...changes(4)]);
    await Promise.allSettled([plane.commands.connect(sandbox, { timeoutSeconds: 900 }), ...changes(4)]);
  }
  await plane.commands.terminate(sandbox, { forget: false });
  const handle = plane.client.workflow.getHandle(sandbox.sandboxId);
  await handle.result();
  const codePath = await ensureWorkflowBundle(path.join(os.tmpdir(), 'sandbox-platform-test-bundles'));
  const dataConverter = createDataConverter(plane.secrets);
  const history = await handle.fetchHistory();
  await Worker.runReplayHistory({ workflowBundle: { codePath }, dataConverter }, history, sandbox.sandboxId);
  expect((await plane.row(sandbox.sandboxId)).status).toBe('terminated');
}, 300_000);

test('a write that is repeated after another worker has ended the sandbox changes nothing', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  const life = new SandboxLifeRepository(plane.orm.em, plane.plans);
  const now = new Date();
  await life.beginPause(sandbox.sandboxId, 'user_requested', now);
  await life.beginTermination(sandbox.sandboxId, 'user_requested');
  expect(await life.pause(sandbox.sandboxId, 'user_requested', now, true)).toMatchObject({ status: 'terminating' });
  await expect(life.beginResume(sandbox.sandboxId, 2)).rejects.toMatchObject({ code: 'sandbox_ended' });
  await plane.commands.terminate(sandbox, { forget: false });
  await plane.client.workflow.getHandle(sandbox.sandboxId).result();
  expect((await plane.row(sandbox.sandboxId)).status).toBe('terminated');
});
