import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { Notification } from '../../../db/accounts/notification.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { hostReportSignal } from '../../../workflows/sandboxes/life/messages.ts';
import { type ControlPlane, startTimeSkippingPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';

const driver = new MemoryDriver();
let environment: TestWorkflowEnvironment;
let plane: ControlPlane;
let stop: () => Promise<void>;

beforeAll(async () => {
  ({ environment, plane, stop } = await startTimeSkippingPlane(driver));
}, 120_000);
afterAll(() => stop());

async function runningSandbox(wanted: Parameters<ControlPlane['admit']>[0] = {}) {
  const sandbox = await plane.admit(wanted);
  const { sandboxId } = sandbox;
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandboxId);
}

const warnings = (sandboxId: SandboxId) =>
  plane.orm.em.fork().find(Notification, { relatedEntityId: sandboxId }, { orderBy: { createdAt: 'asc' } });

test('a start fails when the credentials of its mounts do not arrive', async () => {
  const slot = { slot: 0, state: 'active' as const, uri: 's3://data', mountPoint: '/mnt/data', shortLived: false };
  const sandbox = await plane.admit({ objectStorage: [{ ...slot, region: 'eu', endpoint: null }] });
  await plane.commands.start(sandbox, { wait: false });
  await environment.sleep('100s');
  await until(async () => (await plane.row(sandbox.sandboxId)).status === 'failed');
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({ reason: 'object_storage_credentials_required' });
  expect(driver.calls).not.toContain(`create ${sandbox.sandboxId}`);
  await until(async () => (await warnings(sandbox.sandboxId)).length > 0);
  const [warning, ...more] = await warnings(sandbox.sandboxId);
  const { failure } = await plane.row(sandbox.sandboxId);
  expect([warning?.type, warning?.userId, more]).toEqual(['sandbox_failed', sandbox.ownerUserId, []]);
  expect(warning?.message).toContain(failure!.message);
});

describe('a timeout', () => {
  test('ends the sandbox, after one warning 300, 60 and 15 seconds before', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 3600 });
    await environment.sleep('3650s');
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ reason: 'timeout', lifecycleOutcome: 'timed_out' });
    const sent = await warnings(sandbox.sandboxId);
    expect(sent.map((each) => each.type)).toEqual(['sandbox_timeout', 'sandbox_timeout', 'sandbox_timeout']);
    expect(sent.map((each) => /in (\d+) seconds/.exec(each.message)![1])).toEqual(['300', '60', '15']);
    // An idle hour adds few events: the start, three warnings, the end.
    const history = await plane.client.workflow.getHandle(sandbox.sandboxId).fetchHistory();
    expect(history.events!.length).toBeLessThanOrEqual(60);
  });

  test('that is raised in time ends the sandbox later', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 300 });
    await plane.commands.setTimeout(sandbox, { timeoutSeconds: 3000, mustRaise: true });
    await environment.sleep('2000s');
    expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
    await environment.sleep('1100s');
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
  });

  test('does not count while the sandbox is paused, and begins anew after a resume', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 300 });
    await plane.commands.pause(sandbox, { wait: true });
    await environment.sleep('1h');
    expect((await plane.row(sandbox.sandboxId)).status).toBe('paused');
    await plane.commands.resume(sandbox, { wait: true });
    await environment.sleep('200s');
    expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
    await plane.commands.terminate(sandbox, { forget: false });
  });

  test('pauses the sandbox when auto-pause is on', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 300, autoPause: true });
    await environment.sleep('310s');
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'paused');
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ reason: 'auto_pause', holdsCompute: true });
    expect(driver.states.get(sandbox.sandboxId)).toBe('paused');
  });

  test('ends the processes and keeps the disk when auto-pause has failed three times', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 300, autoPause: true });
    const tries = () => driver.calls.filter((call) => call === `pause ${sandbox.sandboxId}`).length;
    driver.failAlways.set('pause', new DriverError('pause_failed', 'A process could not be frozen'));
    try {
      await environment.sleep('305s');
      for (const count of [1, 2, 3]) {
        await until(() => tries() >= count);
        await environment.sleep('20s');
      }
      await until(async () => (await plane.row(sandbox.sandboxId)).status === 'paused');
    } finally {
      driver.failAlways.clear();
    }
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({
      reason: 'auto_pause',
      holdsCompute: false,
      holdsDisk: true,
    });
    expect(driver.states.get(sandbox.sandboxId)).toBe('exited');
  });
});

describe('a paused sandbox', () => {
  test('is terminated when its retention ends, after one warning', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    await environment.sleep('145h');
    await until(async () => (await warnings(sandbox.sandboxId)).length === 1);
    const [{ type, userId } = {} as Notification] = await warnings(sandbox.sandboxId);
    expect([type, userId]).toEqual(['sandbox_expiry', sandbox.ownerUserId]);
    expect((await plane.row(sandbox.sandboxId)).status).toBe('paused');
    await environment.sleep('1 day');
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({
      reason: 'persistence_expired',
      lifecycleOutcome: 'expired',
    });
  });

  test('counts its retention anew after a resume', async () => {
    const sandbox = await runningSandbox({ timeoutSeconds: 3600 });
    await plane.commands.pause(sandbox, { wait: true });
    await environment.sleep('5 days');
    await plane.commands.resume(sandbox, { wait: true });
    await plane.commands.pause(sandbox, { wait: true });
    await environment.sleep('5 days');
    expect((await plane.row(sandbox.sandboxId)).status).toBe('paused');
    await plane.commands.terminate(sandbox, { forget: false });
  });
});

test('the usage of a sandbox that runs for hours is recorded each hour, and adds up to its running time', async () => {
  const sandbox = await runningSandbox({ timeoutSeconds: 3600 });
  const { sandboxId, cpuCount } = sandbox;
  await plane.commands.setTimeout(sandbox, { timeoutSeconds: 10_000, mustRaise: true });
  const recorded = async () =>
    (await plane.orm.em.fork().execute(
      `select extract(epoch from period_start)::float8 * 1000 as start, extract(epoch from period_end)::float8 * 1000 as end,
              amount::float8 as amount
         from usage_events where resource_id = ? and usage_type = 'cpu_seconds' order by period_start`,
      [sandboxId],
    )) as { start: number; end: number; amount: number }[];
  await environment.sleep('7300s');
  const hoursRecorded = (periods: { amount: number }[]) =>
    periods.reduce((sum, { amount }) => sum + amount, 0) / 3_600_000;
  await until(async () => hoursRecorded(await recorded()) >= 2 * cpuCount);
  expect((await plane.row(sandboxId)).status).toBe('running');
  await plane.commands.terminate(sandbox, { forget: false });
  await until(async () => (await plane.row(sandboxId)).status === 'terminated');
  const { runningMs } = await plane.row(sandboxId);
  const periods = await recorded();
  expect(hoursRecorded(periods)).toBe((cpuCount * runningMs) / 3_600_000);
  for (const [index, { start, end }] of periods.entries()) {
    if (index > 0) expect(start).toBe(periods[index - 1]!.end);
    expect(Math.floor(start / 3_600_000)).toBe(Math.floor((end - 1) / 3_600_000));
  }
  await plane.client.workflow.getHandle(sandboxId).result();
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'sandbox-usage-recorded', sandboxId);
});

describe('a host that restarted', () => {
  test('leaves a running sandbox paused, and its running time ends when the host went down', async () => {
    const sandbox = await runningSandbox();
    const at = new Date(sandbox.startedAt!.getTime() + 5000);
    driver.states.set(sandbox.sandboxId, 'exited');
    await plane.client.workflow
      .getHandle(sandbox.sandboxId)
      .signal(hostReportSignal, { kind: 'memoryLost', run: 1, at: at.toISOString() });
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'paused');
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({
      reason: 'host_restarted',
      holdsCompute: false,
      holdsDisk: true,
      runningMs: 5000,
    });
    await plane.commands.resume(sandbox, { wait: true });
    expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
  });
});

/** Must be the last tests of this file: nothing starts, pauses or resumes afterwards. */
describe('a host whose workers are gone', () => {
  /** Waits until the workflow has asked the host. */
  async function whenAsked(sandboxId: SandboxId, activity: 'pauseSandbox' | 'resumeSandbox'): Promise<void> {
    const handle = plane.client.workflow.getHandle(sandboxId);
    await until(async () => {
      const { events } = await handle.fetchHistory();
      return events!.some((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === activity);
    });
  }

  test('is unavailable for a pause or resume that it has not accepted after 20 seconds, and nothing changes', async () => {
    const running = await runningSandbox();
    const paused = await runningSandbox();
    await plane.commands.pause(paused, { wait: true });
    await plane.stopHosts();
    const calls = driver.calls.length;

    const asked = [plane.commands.pause(running, { wait: true }), plane.commands.resume(paused, { wait: true })];
    const refusals = Promise.allSettled(asked);
    await whenAsked(running.sandboxId, 'pauseSandbox');
    await whenAsked(paused.sandboxId, 'resumeSandbox');
    await environment.sleep('21s');
    const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'host_unavailable' }) };
    expect(await refusals).toEqual([refused, refused]);
    expect(await plane.row(running.sandboxId)).toMatchObject({
      status: 'running',
      reason: 'pause_failed',
      pausingAt: null,
    });
    expect(await plane.row(paused.sandboxId)).toMatchObject({ status: 'paused', reason: 'user_requested' });
    expect(driver.calls).toHaveLength(calls);
  }, 180_000);
});
