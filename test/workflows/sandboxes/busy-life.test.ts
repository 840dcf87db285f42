import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { SandboxLifeRepository } from '../../../db/sandboxes/sandbox-life.ts';
import { createDataConverter } from '../../../platform/temporal/data-converter.ts';
import { ensureWorkflowBundle } from '../../../worker/workflow-bundle.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';

const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
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

test('50 clients change the timeout of one sandbox no slower than one client', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  const change = async (timeoutSeconds: number) => {
    const reply = await plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
    expect(reply.timeoutSeconds).toBe(timeoutSeconds);
  };
  const measured = async (work: () => Promise<unknown>) => {
    const beganMs = performance.now();
    await work();
    return performance.now() - beganMs;
  };
  const ofOneMs = await measured(async () => {
    for (let at = 0; at < 50; at++) await change(600 + at);
  });
  const ofManyMs = await measured(() =>
    Promise.all(
      Array.from({ length: 50 }, async (_, client) => {
        for (let at = 0; at < 4; at++) await change(1000 + 10 * client + at);
      }),
    ),
  );
  expect(ofManyMs / 200).toBeLessThan(ofOneMs / 50);
  await plane.commands.terminate(sandbox, { forget: false });
}, 300_000);

test('of concurrent raises the longest wins, and the others are refused as not longer', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  const raises = await Promise.allSettled(
    [700, 800, 900, 800, 600].map((timeoutSeconds) =>
      plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: true }),
    ),
  );
  expect(raises.map((each) => (each.status === 'fulfilled' ? each.value.timeoutSeconds : each.reason.code))).toEqual([
    700,
    'timeout_not_raised',
    900,
    'timeout_not_raised',
    'timeout_not_raised',
  ]);
  expect((await plane.row(sandbox.sandboxId)).timeoutSeconds).toBe(900);
  await plane.commands.terminate(sandbox, { forget: false });
});

test('commands above the limit of one sandbox are refused at once, and it can still be terminated', async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  await plane.commands.pause(sandbox, { wait: true });
  driver.hangs.add(`resume ${sandbox.sandboxId}`);
  const connects = Array.from({ length: 20 }, () => plane.commands.connect(sandbox, { timeoutSeconds: null }));
  const settled = Promise.allSettled(connects);
  // The others wait for the resume, which hangs until the end of the sandbox cancels it.
  await expect(Promise.race(connects)).rejects.toMatchObject({ code: 'too_many_requests', retryAfterSeconds: 1 });
  await Promise.all([1, 2, 3, 4].map(() => plane.commands.terminate(sandbox, { forget: false })));
  const codes = (await settled).map((each) => (each.status === 'rejected' ? each.reason.code : 'done'));
  expect(codes.filter((code) => code === 'too_many_requests')).toHaveLength(13);
  expect(codes.filter((code) => code === 'temporarily_unavailable')).toEqual([]);
});

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
