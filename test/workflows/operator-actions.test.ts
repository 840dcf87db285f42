import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { newId } from '../../db/core/new-id.ts';
import { workflowKinds } from '../../domain/workflow-registry.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { ensureSchedule } from '../../worker/schedules.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';
import { until } from '../support/until.ts';

/** What the buttons `Cancel` and `Terminate` of the Temporal Web UI do to workflows. */
const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane?.stop());

async function runningSandbox() {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  return sandbox.sandboxId;
}

const getHandle = (workflowId: string) => plane.client.workflow.getHandle(workflowId);
const readStatus = async (workflowId: string) => (await getHandle(workflowId).describe()).status.name;

/** Cancels a workflow, and waits until it has seen that. */
async function cancel(handle: WorkflowHandle): Promise<void> {
  await handle.cancel();
  await until(async () => {
    const events = (await handle.fetchHistory()).events ?? [];
    const at = events.findIndex((event) => event.workflowExecutionCancelRequestedEventAttributes);
    return at >= 0 && events.slice(at).some((event) => event.workflowTaskCompletedEventAttributes);
  });
}

/** The host has nothing of the sandbox left. */
async function expectRemoved(sandboxId: Awaited<ReturnType<typeof runningSandbox>>): Promise<void> {
  expect(await plane.row(sandboxId)).toMatchObject({ holdsCompute: false, holdsDisk: false });
  expect(driver.calls).toContain(`remove ${sandboxId}`);
}

test.each(['running', 'paused', 'starting'])(
  'a cancelled sandbox that is %s is terminated and removed',
  async (status) => {
    if (status === 'starting') driver.hold = new Promise(() => {});
    const sandbox = await plane.admit();
    const { sandboxId } = sandbox;
    await plane.commands.start(sandbox, { wait: status !== 'starting' });
    if (status === 'paused') await plane.commands.pause(sandbox, { wait: true });
    if (status === 'starting') await until(async () => (await plane.row(sandboxId)).substatus === 'deploying');
    await getHandle(sandboxId).cancel();
    await getHandle(sandboxId).result();
    driver.hold = null;
    expect(await plane.row(sandboxId)).toMatchObject({ status: 'terminated', reason: 'ended_by_operator' });
    await expectRemoved(sandboxId);
    expect(await readStatus(sandboxId)).toBe('COMPLETED');
    if (process.env.RECORD_HISTORIES === '1' && status === 'running') {
      await recordHistory(plane.client, 'sandbox-cancelled', sandboxId);
    }
  },
);

test('a command in progress when the sandbox is cancelled is refused, because the sandbox ends', async () => {
  const sandboxId = await runningSandbox();
  driver.hangs.add(`pause ${sandboxId}`);
  const paused = plane.commands.pause(await plane.row(sandboxId), { wait: true });
  const outcome = expect(paused).rejects.toMatchObject({ code: 'sandbox_ended' });
  await until(() => driver.hanging.has(sandboxId));
  await getHandle(sandboxId).cancel();
  await outcome;
  await getHandle(sandboxId).result();
  expect((await plane.row(sandboxId)).status).toBe('terminated');
});

test('the periods of an account and the watch of a host go on after a cancel', async () => {
  const { hostId } = plane;
  const { accountId } = plane.account;
  await plane.client.workflow.start('billing', startOptions('billing', accountId, { accountId }));
  await plane.client.workflow.start('host', startOptions('host', hostId, { hostId }));
  for (const workflowId of [hostId, `${accountId}/billing`]) {
    await cancel(getHandle(workflowId));
    expect([workflowId, await readStatus(workflowId)]).toEqual([workflowId, 'RUNNING']);
  }
  if (process.env.RECORD_HISTORIES === '1')
    await recordHistory(plane.client, 'billing-cancelled', `${accountId}/billing`);
});

test('a batch ends all of its sandboxes after a cancel', async () => {
  // Its workflow is not started yet, so the batch waits for it.
  const { sandboxId } = await plane.admit();
  const options = startOptions('sandboxBatchEnding', newId('batch'), {
    ...{ accountId: plane.account.accountId, sandboxIds: [sandboxId], forget: false },
  });
  const batch = await plane.client.workflow.start('sandboxBatchEnding', options);
  await cancel(batch);
  await plane.commands.start(await plane.row(sandboxId), { wait: false });
  await batch.result();
  await getHandle(sandboxId).result();
  expect((await plane.row(sandboxId)).status).toBe('terminated');
});

test('every workflow type says what a cancel and a terminate do', () => {
  for (const [type, { cancel: onCancel, terminate }] of Object.entries(workflowKinds)) {
    // What an account or a host depends on is also there after a terminate.
    if (onCancel === 'ignored') expect([type, terminate]).toEqual([type, 'restarted']);
  }
});

test('maintenance ends terminated sandboxes and starts other terminated workflows again', async () => {
  const { hostId } = plane;
  const { accountId } = plane.account;
  const sandboxId = await runningSandbox();
  const terminated = [sandboxId, hostId, `${accountId}/billing`];
  for (const workflowId of terminated) await getHandle(workflowId).terminate();
  // A command finds no workflow, and changes nothing.
  await expect(plane.commands.pause(await plane.row(sandboxId), { wait: true })).rejects.toMatchObject({
    code: 'sandbox_ended',
  });
  await until(async () => {
    await plane.client.workflow.execute('maintenance', startOptions('maintenance', '', undefined));
    while ((await plane.relay.relayOnce()) > 0);
    const running = await Promise.all([hostId, `${accountId}/billing`].map(readStatus));
    return (await plane.row(sandboxId)).status === 'failed' && running.every((status) => status === 'RUNNING');
  });
  await getHandle(`${sandboxId}/deletion`).result();
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'failed', reason: 'ended_by_operator' });
  await expectRemoved(sandboxId);
  // The same again changes nothing.
  const before = await Promise.all(
    terminated.map(async (workflowId) => (await getHandle(workflowId).describe()).runId),
  );
  const done = await plane.client.workflow.execute('maintenance', startOptions('maintenance', '', undefined));
  expect(done.workflowsReplaced).toBe(0);
  expect(
    await Promise.all(terminated.map(async (workflowId) => (await getHandle(workflowId).describe()).runId)),
  ).toEqual(before);
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'sandbox-deletion-of-an-orphan', `${sandboxId}/deletion`);
    await recordHistory(plane.client, 'maintenance-replaces-workflows', 'maintenance');
  }
});

test('a schedule of an earlier version gets the interval of this one, and stays paused', async () => {
  const scheduleId = workflowKinds.imageCollection.workflowId('');
  await ensureSchedule(plane.client, 'imageCollection');
  const schedule = plane.client.schedule.getHandle(scheduleId);
  const { spec, action } = await schedule.describe();
  await schedule.pause('by an operator');
  await schedule.update((previous) => ({
    ...previous,
    spec: { intervals: [{ every: '13h', offset: '5m' }] },
    action: { ...previous.action, taskQueue: 'earlier' },
  }));
  await ensureSchedule(plane.client, 'imageCollection');
  const now = await schedule.describe();
  expect([now.spec.intervals, now.action.taskQueue]).toEqual([spec.intervals, action.taskQueue]);
  expect(now.state).toMatchObject({ paused: true, note: 'by an operator' });
  const updates = now.info.lastUpdatedAt;
  await ensureSchedule(plane.client, 'imageCollection');
  expect((await schedule.describe()).info.lastUpdatedAt).toEqual(updates);
  await schedule.delete();
});
