import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { offerUdpPorts } from '../../db/hosts/hosts.ts';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { DriverError } from '../../runtime/driver.ts';
import { hostReportSignal } from '../../workflows/sandboxes/life/messages.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';
import { until } from '../support/until.ts';

/**
 * Every path that a sandbox's workflow can take. With RECORD_HISTORIES=1 the histories are stored for the replay tests;
 * otherwise each workflow must reach its end.
 */
const recording = process.env.RECORD_HISTORIES === '1';
const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane.stop());

async function runningSandbox() {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
}

async function waitForEnd(name: string, workflowId: string, runId?: string) {
  const handle = plane.client.workflow.getHandle(workflowId, runId, { followRuns: false });
  await handle.result().catch((error) => expect(ends).toContain(error.name));
  expect((await handle.describe()).status.name).not.toBe('RUNNING');
  if (recording) await recordHistory(plane.client, name, workflowId, runId);
}

/** The failures of a run that has a next run, and of a failed sandbox. */
const ends = ['WorkflowExecutionContinuedAsNewError', 'WorkflowFailedError'];

test('terminated', async () => {
  const sandbox = await runningSandbox();
  await plane.commands.setTimeout(sandbox, { timeoutSeconds: 900, mustRaise: true });
  await plane.commands.terminate(sandbox, { forget: true });
  await waitForEnd('sandbox-terminated', sandbox.sandboxId);
});

test('paused and resumed, where each fails at first', async () => {
  const sandbox = await runningSandbox();
  driver.failNext.set('pause', new DriverError('pause_failed', 'no'));
  await plane.commands.pause(sandbox, { wait: true }).catch((error) => expect(error.code).toBe('pause_failed'));
  await plane.commands.pause(sandbox, { wait: true });
  driver.failNext.set('resume', new DriverError('start_failed', 'no'));
  await plane.commands.resume(sandbox, { wait: true }).catch((error) => expect(error.code).toBe('resume_failed'));
  await plane.commands.connect(sandbox, { timeoutSeconds: 600 });
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-paused-and-resumed', sandbox.sandboxId);
});

test('failed start, then deleted', async () => {
  driver.failNext.set('create', new DriverError('image_pull_failed', 'no such image'));
  const sandbox = await runningSandbox();
  await waitForEnd('sandbox-failed', sandbox.sandboxId);
  await plane.commands.terminate(sandbox, { forget: true });
  await waitForEnd('sandbox-deletion', `${sandbox.sandboxId}/deletion`);
});

test('failed start on a host whose disk is full, without another host', async () => {
  driver.failNext.set('create', new DriverError('host_disk_full', 'no room'));
  const sandbox = await runningSandbox();
  expect(sandbox).toMatchObject({ status: 'failed', reason: 'host_disk_full' });
  await waitForEnd('sandbox-host-full', sandbox.sandboxId);
});

test('the disk copied for a backup', async () => {
  const sandbox = await runningSandbox();
  const { sandboxId, hostId } = sandbox;
  const copyId = `backup-${sandboxId.slice(4)}`;
  const options = startOptions('diskCopy', copyId, { copyId, sandboxId, hostId: hostId! });
  expect(await plane.client.workflow.execute('diskCopy', options)).toEqual({ frozenMs: 1, bytes: 1 });
  await waitForEnd('disk-copy', copyId);
  await plane.commands.terminate(sandbox, { forget: false });
});

test('terminated while starting', async () => {
  driver.hold = new Promise(() => {});
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: false });
  await until(async () => (await plane.row(sandbox.sandboxId)).substatus === 'deploying');
  await plane.commands.terminate(sandbox, { forget: false });
  driver.hold = null;
  await waitForEnd('sandbox-terminated-while-starting', sandbox.sandboxId);
});

test('terminated while pausing', async () => {
  const sandbox = await runningSandbox();
  driver.hangs.add(`pause ${sandbox.sandboxId}`);
  await plane.commands.pause(sandbox, { wait: false });
  await until(() => driver.hanging.has(sandbox.sandboxId));
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-terminated-while-pausing', sandbox.sandboxId);
});

test('terminated while resuming', async () => {
  const sandbox = await runningSandbox();
  await plane.commands.pause(sandbox, { wait: true });
  driver.hangs.add(`resume ${sandbox.sandboxId}`);
  await plane.commands.resume(sandbox, { wait: false });
  await until(() => driver.hanging.has(sandbox.sandboxId));
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-terminated-while-resuming', sandbox.sandboxId);
});

test('ports changed, where the host fails at first', async () => {
  await offerUdpPorts(plane.orm.em, plane.hostId, {
    publicAddress: 'localhost',
    ports: { first: 20_000, last: 20_001 },
  });
  const sandbox = await runningSandbox();
  const udp = { port: 53, servicePort: 53, protocol: 'UDP' as const, name: 'dns', isProtected: false };
  await plane.commands.addPort(sandbox, { ...udp, port: 80, name: 'web', protocol: 'TCP' });
  driver.failNext.set('expose', new DriverError('sandbox_absent', 'no'));
  await plane.commands.addPort(sandbox, udp).catch((error) => expect(error.code).toBe('temporarily_unavailable'));
  await plane.commands.addPort(sandbox, udp);
  await plane.commands.addPort(sandbox, udp).catch((error) => expect(error.code).toBe('port_taken'));
  await plane.commands.removePort(sandbox, 53);
  await plane.commands.removePort(sandbox, 80);
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-ports-changed', sandbox.sandboxId);
});

test('one running and one failed sandbox terminated in a batch', async () => {
  const running = await runningSandbox();
  driver.failNext.set('create', new DriverError('image_pull_failed', 'no such image'));
  const failed = await runningSandbox();
  await expect(plane.client.workflow.getHandle(failed.sandboxId).result()).rejects.toThrow('Workflow execution failed');
  const sandboxIds = [running.sandboxId, failed.sandboxId];
  const input = { accountId: running.accountId, sandboxIds, forget: false };
  const options = startOptions('sandboxBatchEnding', 'bat-recorded', input);
  await plane.client.workflow.execute('sandboxBatchEnding', options);
  await waitForEnd('sandbox-batch-ending', 'bat-recorded');
  await waitForEnd('sandbox-ended-in-batch', running.sandboxId);
  expect((await plane.row(failed.sandboxId)).status).toBe('terminated');
});

test('runtime exited', async () => {
  const sandbox = await runningSandbox();
  driver.exit(sandbox.sandboxId, { exitCode: 1, outOfMemory: false, commandOutput: '' });
  await waitForEnd('sandbox-runtime-exited', sandbox.sandboxId);
});

test('host restarted', async () => {
  const sandbox = await runningSandbox();
  driver.states.set(sandbox.sandboxId, 'exited');
  const report = { kind: 'memoryLost', run: null, at: new Date().toISOString() } as const;
  await plane.client.workflow.getHandle(sandbox.sandboxId).signal(hostReportSignal, report);
  await until(async () => (await plane.row(sandbox.sandboxId)).status === 'paused');
  await plane.commands.resume(sandbox, { wait: true });
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-host-restarted', sandbox.sandboxId);
});

test('paused twice under disk pressure, with frozen and with ended processes', async () => {
  const sandbox = await runningSandbox();
  const handle = plane.client.workflow.getHandle(sandbox.sandboxId);
  const isPaused = async () => (await plane.row(sandbox.sandboxId)).status === 'paused';
  await handle.signal(hostReportSignal, { kind: 'diskPressure', run: 1, ended: false });
  await until(isPaused);
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({ reason: 'host_disk_pressure', holdsCompute: true });
  await plane.commands.resume(sandbox, { wait: true });
  driver.states.set(sandbox.sandboxId, 'exited');
  // A late report about the processes before the resume.
  await handle.signal(hostReportSignal, { kind: 'diskPressure', run: 1, ended: true });
  await handle.signal(hostReportSignal, { kind: 'diskPressure', run: 2, ended: true });
  await until(isPaused);
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({ reason: 'host_disk_pressure', holdsCompute: false });
  const notifications = () =>
    plane.orm.em
      .fork()
      .execute("select 1 from notifications where related_entity_id = ? and type = 'sandbox_host_disk_pressure'", [
        sandbox.sandboxId,
      ]);
  await until(async () => (await notifications()).length === 2);
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-host-disk-pressure', sandbox.sandboxId);
});

test('host lost and back, with one running, one starting and one paused sandbox', async () => {
  const running = await runningSandbox();
  const paused = await runningSandbox();
  await plane.commands.pause(paused, { wait: true });
  driver.hold = new Promise(() => {});
  const starting = await plane.admit();
  await plane.commands.start(starting, { wait: false });
  await until(async () => (await plane.row(starting.sandboxId)).substatus === 'deploying');
  const input = { workflowId: plane.hostId, taskQueue: controlTaskQueues.sandboxes, args: [{ hostId: plane.hostId }] };
  await plane.client.workflow.start('host', input);
  const setLost = (lostAt: string) =>
    plane.orm.em.fork().execute(`update hosts set lost_at = ${lostAt} where host_id = ?`, [plane.hostId]);
  await setLost('now()');
  for (const { sandboxId } of [running, starting]) {
    await until(async () => (await plane.row(sandboxId)).status === 'failed');
    expect(await plane.row(sandboxId)).toMatchObject({ reason: 'host_lost', lifecycleOutcome: 'failed' });
  }
  expect((await plane.row(paused.sandboxId)).status).toBe('paused');
  driver.hold = null;
  await setLost('null');
  await until(
    async () =>
      await plane.commands.resume(paused, { wait: true }).then(
        () => true,
        () => false,
      ),
  );
  await plane.commands.terminate(paused, { forget: false });
  await waitForEnd('sandbox-host-lost', running.sandboxId);
  await waitForEnd('sandbox-host-lost-while-starting', starting.sandboxId);
  if (recording) await recordHistory(plane.client, 'host', plane.hostId);
  await plane.client.workflow.getHandle(plane.hostId).terminate();
});

test('restarted, where the first try fails', async () => {
  const sandbox = await runningSandbox();
  driver.failNext.set('restart', new DriverError('start_failed', 'no'));
  const storage = null;
  await plane.commands.restart(sandbox, { storage }).catch((error) => expect(error.code).toBe('restart_failed'));
  await plane.commands.restart(sandbox, { storage });
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'running', reason: 'restarted' });
  await plane.commands.restart(sandbox, { storage });
  await plane.commands.terminate(sandbox, { forget: false });
  await waitForEnd('sandbox-restarted', sandbox.sandboxId);
});

test('failed because of a lost disk, while running and while paused', async () => {
  const [running, paused] = await Promise.all([runningSandbox(), runningSandbox()]);
  await plane.commands.pause(paused, { wait: true });
  for (const { sandboxId } of [running, paused]) {
    await plane.client.workflow.getHandle(sandboxId).signal(hostReportSignal, { kind: 'diskLost', run: 1 });
  }
  await waitForEnd('sandbox-disk-lost-running', running.sandboxId);
  await waitForEnd('sandbox-disk-lost-paused', paused.sandboxId);
  for (const { sandboxId } of [running, paused]) expect((await plane.row(sandboxId)).reason).toBe('disk_lost');
});
