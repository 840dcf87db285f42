import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowFailedError } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { createProject } from '../../../db/accounts/projects.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { newId } from '../../../db/core/new-id.ts';
import { requestStart } from '../../../db/core/outbox.ts';
import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import { toLifeStart } from '../../../db/sandboxes/admission.ts';
import { moveSandboxToProject } from '../../../db/sandboxes/sandbox-projects.ts';
import { pauseSandboxes } from '../../../db/usage/metered-quotas.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { EncryptionCodec } from '../../../platform/temporal/payload-codec.ts';
import { DriverError } from '../../../runtime/driver.ts';
import { lifeQuery, pauseRequestedSignal } from '../../../workflows/sandboxes/life/messages.ts';
import { actionsIn } from '../../support/billed-actions.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { currentDetails } from '../../support/current-details.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';

const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro' });
}, 120_000);
afterAll(() => plane.stop());

async function runningSandbox(wanted: Parameters<ControlPlane['admit']>[0] = {}) {
  const sandbox = await plane.admit(wanted);
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
}

/** Waits for the end of the workflow. The workflow of a failed sandbox fails. */
async function closed(sandboxId: SandboxId): Promise<void> {
  const end = await plane.client.workflow
    .getHandle(sandboxId)
    .result()
    .catch((error) => error);
  if (end !== undefined) expect(end).toBeInstanceOf(WorkflowFailedError);
}

async function readEvents(sandboxId: SandboxId) {
  const events = await plane.orm.em.fork().find(Event, { objectId: sandboxId }, { orderBy: { sequence: 'asc' } });
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, index) => index + 1));
  return events.map((event) => event.type);
}

/** Fields that the SDK itself records for a local activity, unencrypted. */
const localActivityFields = [
  ...['activity_id', 'activity_type', 'attempt', 'backoff', 'complete_time', 'original_schedule_time', 'seq'],
];

/** Every payload in a part of a history, except search attributes, which Temporal itself must read. */
function payloadsIn(part: unknown): Payload[] {
  if (typeof part !== 'object' || part === null || part instanceof Uint8Array) return [];
  if ('metadata' in part && 'data' in part && part.data instanceof Uint8Array) return [part as Payload];
  const inner = Object.entries(part).filter(([name]) => name !== 'searchAttributes');
  return inner.flatMap(([, value]) => payloadsIn(value));
}

const refusal = (code: string) => expect.objectContaining({ name: 'AppError', code });

test.each(['user', 'account'])(
  'a sandbox whose %s has used up a quota is paused when the platform asks, and can be resumed',
  async (whose) => {
    const sandbox = await runningSandbox();
    const { sandboxId, accountId, ownerUserId } = sandbox;
    const userId = whose === 'user' ? ownerUserId : null;
    expect(await pauseSandboxes(plane.orm.em, { accountId, userId })).toBeGreaterThan(0);
    await until(async () => (await plane.row(sandboxId)).status === 'paused');
    expect((await plane.row(sandboxId)).reason).toBe('quota_used_up');
    // A sandbox that is paused already records nothing.
    await plane.client.workflow.getHandle(sandboxId).signal(pauseRequestedSignal, { reason: 'quota_used_up' });
    await plane.commands.resume(sandbox, { wait: true });
    expect((await plane.row(sandboxId)).status).toBe('running');
    await plane.commands.terminate(sandbox, { forget: false });
  },
);

describe('starting', () => {
  test('a create that waits gets its reply when the sandbox runs', async () => {
    const row = await runningSandbox();
    expect(row).toMatchObject({
      status: 'running',
      substatus: null,
      reason: 'user_requested',
      agentAddress: '10.99.0.2',
    });
    expect(row.startedAt).toBeInstanceOf(Date);
    expect(await readEvents(row.sandboxId)).toEqual(['sandbox.created', 'sandbox.started']);
  });

  test('the relay starts a sandbox that the API could not start', async () => {
    const { sandboxId } = await plane.admit();
    await until(async () => (await plane.row(sandboxId)).status === 'running');
    expect(driver.calls.filter((call) => call === `create ${sandboxId}`)).toHaveLength(1);
  });

  test('a sandbox that is started three times is created once', async () => {
    const sandbox = await plane.admit();
    const { sandboxId } = sandbox;
    await Promise.all([
      plane.commands.start(sandbox, { wait: true }),
      plane.commands.start(sandbox, { wait: true }),
      plane.relay.relayOnce(),
    ]);
    expect(driver.calls.filter((call) => call === `create ${sandboxId}`)).toHaveLength(1);
  });

  test('a failed start records its reason, exit code and last output, and releases its capacity', async () => {
    driver.failNext.set(
      'create',
      new DriverError('not_ready', 'The ready probe never succeeded', {
        exit: { sandboxId: 'sbx-x', run: 1, exitCode: 3, outOfMemory: true, commandOutput: 'last words' },
      }),
    );
    const sandbox = await plane.admit();
    const { sandboxId } = sandbox;
    await plane.commands.start(sandbox, { wait: true });
    // The error is the same during the clean-up and after the workflow's end.
    await expect(plane.commands.pause(sandbox, { wait: true })).rejects.toEqual(refusal('sandbox_ended'));
    await until(async () => !(await plane.row(sandboxId)).holdsDisk);
    expect(await plane.row(sandboxId)).toMatchObject({
      status: 'failed',
      reason: 'not_ready',
      lifecycleOutcome: 'failed',
      failure: {
        message: 'The ready probe never succeeded',
        exitCode: 3,
        outOfMemory: true,
        commandOutput: 'last words',
      },
      holdsCompute: false,
    });
    expect(await readEvents(sandboxId)).toEqual(['sandbox.created', 'sandbox.failed']);
  });

  test('a sandbox that is terminated while it starts is cleaned up and never runs', async () => {
    let release = () => {};
    driver.hold = new Promise((resolve) => {
      release = resolve;
    });
    const sandbox = await plane.admit();
    await plane.commands.start(sandbox, { wait: false });
    await until(async () => (await plane.row(sandbox.sandboxId)).substatus === 'deploying');
    await plane.commands.terminate(sandbox, { forget: false });
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
    driver.hold = null;
    release();
    expect(driver.states.has(sandbox.sandboxId)).toBe(false);
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ startedAt: null, lifecycleOutcome: 'completed' });
    expect(await readEvents(sandbox.sandboxId)).toEqual(['sandbox.created', 'sandbox.terminated']);
  });
});

describe('pausing and resuming', () => {
  test('a pause that waits returns at paused, a resume at running, and each phase is counted once', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    const paused = await plane.row(sandbox.sandboxId);
    expect(paused).toMatchObject({
      status: 'paused',
      reason: 'user_requested',
      phaseKind: 'paused',
      timeoutFrom: null,
    });
    expect(paused.runningMs).toBe(paused.pausedAt!.getTime() - paused.startedAt!.getTime());
    await plane.commands.resume(sandbox, { wait: true });
    const resumed = await plane.row(sandbox.sandboxId);
    expect(resumed).toMatchObject({ status: 'running', phaseKind: 'running', pausedAt: null });
    expect(resumed.pausedMs).toBe(resumed.resumedAt!.getTime() - paused.pausedAt!.getTime());
    expect(await readEvents(sandbox.sandboxId)).toEqual([
      'sandbox.created',
      'sandbox.started',
      'sandbox.paused',
      'sandbox.resumed',
    ]);
  });

  test('a pause on a host that keeps the disk alone gives the memory back, and a resume starts the sandbox', async () => {
    driver.pauseKeeps = 'disk';
    try {
      const sandbox = await runningSandbox();
      await plane.commands.pause(sandbox, { wait: true });
      expect(await plane.row(sandbox.sandboxId)).toMatchObject({
        status: 'paused',
        holdsCompute: false,
        holdsDisk: true,
      });
      expect(driver.states.get(sandbox.sandboxId)).toBe('exited');
      await plane.commands.resume(sandbox, { wait: true });
      expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'running', holdsCompute: true });
    } finally {
      driver.pauseKeeps = 'memory';
    }
  });

  test('a pause that does not wait returns when the row says pausing', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: false });
    expect(['pausing', 'paused']).toContain((await plane.row(sandbox.sandboxId)).status);
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'paused');
  });

  test('a pause that fails leaves the sandbox running, with the reason', async () => {
    const sandbox = await runningSandbox();
    driver.failNext.set('pause', new DriverError('pause_failed', 'A process could not be frozen'));
    await expect(plane.commands.pause(sandbox, { wait: true })).rejects.toEqual(refusal('pause_failed'));
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({
      status: 'running',
      reason: 'pause_failed',
      pausingAt: null,
    });
  });

  test('a resume that fails leaves the sandbox paused, with the reason', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    driver.failNext.set('resume', new DriverError('start_failed', 'The disk could not be mounted'));
    await expect(plane.commands.resume(sandbox, { wait: true })).rejects.toBeInstanceOf(AppError);
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'paused', reason: 'resume_failed' });
  });

  test('a pause of a paused sandbox and a resume of a running one are refused', async () => {
    const sandbox = await runningSandbox();
    await expect(plane.commands.resume(sandbox, { wait: true })).rejects.toEqual(refusal('sandbox_not_paused'));
    await plane.commands.pause(sandbox, { wait: true });
    await expect(plane.commands.pause(sandbox, { wait: true })).rejects.toEqual(refusal('sandbox_not_running'));
  });

  test('connect resumes a paused sandbox, and its timeout counts from then', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    await plane.commands.connect(sandbox, { timeoutSeconds: 90 });
    const row = await plane.row(sandbox.sandboxId);
    expect(row).toMatchObject({ status: 'running', timeoutSeconds: 90 });
    expect(row.timeoutFrom!.getTime()).toBeGreaterThanOrEqual(row.resumedAt!.getTime());
  });

  test('three connects at once resume the sandbox once', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    const connects = [1, 2, 3].map(() => plane.commands.connect(sandbox, { timeoutSeconds: null }));
    await Promise.all(connects);
    expect(driver.calls.filter((call) => call === `resume ${sandbox.sandboxId}`)).toHaveLength(1);
  });
});

describe('timeouts', () => {
  test('a raised timeout applies to the current running phase', async () => {
    const sandbox = await runningSandbox();
    const reply = await plane.commands.setTimeout(sandbox, { timeoutSeconds: 900, mustRaise: true });
    const row = await plane.row(sandbox.sandboxId);
    expect(reply).toEqual({
      timeoutSeconds: 900,
      timeoutAtMs: row.timeoutFrom!.getTime() + 900_000,
      appliesTo: 'current_phase',
    });
    expect(row.timeoutSeconds).toBe(900);
  });

  test('a timeout that must be raised is refused when it is not longer', async () => {
    const sandbox = await runningSandbox();
    const same = plane.commands.setTimeout(sandbox, { timeoutSeconds: 300, mustRaise: true });
    await expect(same).rejects.toEqual(refusal('timeout_not_raised'));
    expect((await plane.row(sandbox.sandboxId)).timeoutSeconds).toBe(300);
  });

  test('a set and a raise at the same moment get the replies of their own changes', async () => {
    const sandbox = await runningSandbox();
    const from = (await plane.row(sandbox.sandboxId)).timeoutFrom!.getTime();
    for (let round = 1; round <= 10; round++) {
      const numbers = [300 + round, 3000 + round];
      const replies = await Promise.all(
        numbers.map((timeoutSeconds, index) =>
          plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: index === 1 }),
        ),
      );
      expect(replies).toEqual(
        numbers.map((timeoutSeconds) => ({
          timeoutSeconds,
          timeoutAtMs: from + timeoutSeconds * 1000,
          appliesTo: 'current_phase',
        })),
      );
    }
  });

  test('a timeout that is set while paused applies to the next phase', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.pause(sandbox, { wait: true });
    const reply = await plane.commands.setTimeout(sandbox, { timeoutSeconds: 120, mustRaise: false });
    expect(reply).toEqual({ timeoutSeconds: 120, timeoutAtMs: null, appliesTo: 'next_phase' });
  });
});

describe('ending', () => {
  test('a terminated sandbox is cleaned up, its time no longer counts, and a second terminate finds it terminated', async () => {
    const sandbox = await runningSandbox();
    expect(await plane.commands.terminate(sandbox, { forget: false })).toEqual({ alreadyTerminated: false });
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'terminated');
    const row = await plane.row(sandbox.sandboxId);
    expect(row).toMatchObject({
      lifecycleOutcome: 'completed',
      holdsCompute: false,
      holdsDisk: false,
      phaseKind: null,
    });
    expect(row.runningMs).toBe(row.stoppedAt!.getTime() - row.startedAt!.getTime());
    expect(driver.states.has(sandbox.sandboxId)).toBe(false);
    expect(await plane.commands.terminate(row, { forget: false })).toEqual({ alreadyTerminated: true });
    expect(await readEvents(sandbox.sandboxId)).toEqual([
      'sandbox.created',
      'sandbox.started',
      'sandbox.stopped',
      'sandbox.terminated',
    ]);
  });

  test('a deleted sandbox is marked deleted once its data is gone', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.terminate(sandbox, { forget: true });
    await until(async () => (await plane.row(sandbox.sandboxId)).deletedAt !== null);
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'terminated', lifecycleOutcome: 'deleted' });
  });

  test('a failed and a terminated sandbox can be deleted after their workflows have closed', async () => {
    for (const end of ['failed', 'terminated'] as const) {
      if (end === 'failed') driver.failNext.set('create', new DriverError('start_failed', 'no'));
      const sandbox = await runningSandbox();
      if (end === 'terminated') await plane.commands.terminate(sandbox, { forget: false });
      await until(async () => (await plane.row(sandbox.sandboxId)).status === end);
      await closed(sandbox.sandboxId);
      await plane.commands.terminate(await plane.row(sandbox.sandboxId), { forget: true });
      expect(await plane.row(sandbox.sandboxId)).toMatchObject({
        status: 'terminated',
        deletedAt: expect.any(Date),
        lifecycleOutcome: end === 'failed' ? 'failed' : 'completed',
      });
    }
  });

  test('commands for an ended sandbox are refused as sandbox_ended', async () => {
    const sandbox = await runningSandbox();
    await plane.commands.terminate(sandbox, { forget: false });
    await plane.client.workflow.getHandle(sandbox.sandboxId).result();
    for (const command of [
      () => plane.commands.pause(sandbox, { wait: true }),
      () => plane.commands.resume(sandbox, { wait: true }),
      () => plane.commands.connect(sandbox, { timeoutSeconds: null }),
      () => plane.commands.setTimeout(sandbox, { timeoutSeconds: 900, mustRaise: false }),
    ]) {
      await expect(command()).rejects.toEqual(refusal('sandbox_ended'));
    }
  });

  test('a sandbox whose processes end by themselves fails, with their exit status and output', async () => {
    const sandbox = await runningSandbox();
    driver.exit(sandbox.sandboxId, { exitCode: 137, outOfMemory: true, commandOutput: 'Killed' });
    await until(async () => (await plane.row(sandbox.sandboxId)).status === 'failed');
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({
      reason: 'runtime_exited',
      failure: { exitCode: 137, outOfMemory: true, commandOutput: 'Killed' },
    });
    expect(await readEvents(sandbox.sandboxId)).toEqual([
      'sandbox.created',
      'sandbox.started',
      'sandbox.stopped',
      'sandbox.failed',
    ]);
  });
});

describe('what operators see', () => {
  const readDetails = (sandboxId: SandboxId) => currentDetails(plane.client.workflow.getHandle(sandboxId));
  const formatMinute = (time: Date) => time.toISOString().replace(/T(..:..).*/, ' $1 UTC');

  // docs/operations.md names both numbers.
  test.each([
    [false, 15],
    [true, 27],
  ])('a life costs few actions of Temporal (with a pause and a resume: %s)', async (pauses, documented) => {
    const { sandboxId } = await runningSandbox();
    const row = () => plane.row(sandboxId);
    if (pauses) {
      await plane.commands.pause(await row(), { wait: true });
      await plane.commands.resume(await row(), { wait: true });
    }
    await plane.commands.terminate(await row(), { forget: true });
    await closed(sandboxId);
    const { events } = await plane.client.workflow.getHandle(sandboxId).fetchHistory();
    // Two changes at the same time may share one.
    expect(Math.abs(actionsIn(events!) - documented)).toBeLessThanOrEqual(1);
  });

  test('the current details show the status and when the timeout acts, also after it was changed', async () => {
    const sandbox = await runningSandbox({ autoPause: true });
    const { sandboxId, timeoutFrom } = sandbox;
    const deadline = (seconds: number) => formatMinute(new Date(timeoutFrom!.getTime() + seconds * 1000));
    expect(await readDetails(sandboxId)).toBe(`running; pauses at ${deadline(300)} unless extended`);
    await plane.commands.setTimeout(sandbox, { timeoutSeconds: 7200, mustRaise: true });
    expect(await readDetails(sandboxId)).toBe(`running; pauses at ${deadline(7200)} unless extended`);
    await plane.commands.terminate(sandbox, { forget: false });
    await plane.client.workflow.getHandle(sandboxId).result();
    expect(await readDetails(sandboxId)).toBe('terminated');
  });

  test('the current details of a paused sandbox show when it is deleted', async () => {
    const kept = await runningSandbox();
    await plane.commands.pause(kept, { wait: true });
    const { pausedAt, persistenceDays } = await plane.row(kept.sandboxId);
    const deletedAt = formatMinute(new Date(pausedAt!.getTime() + persistenceDays! * 86_400_000));
    expect(await readDetails(kept.sandboxId)).toBe(`paused; deleted at ${deletedAt} unless resumed`);
  });

  test('timers have a summary, which is encrypted', async () => {
    const { sandboxId } = await runningSandbox();
    const history = await plane.client.workflow.getHandle(sandboxId).fetchHistory();
    const timer = history.events!.find((event) => event.timerStartedEventAttributes)!;
    const summary = timer.userMetadata!.summary!;
    expect(Buffer.from(summary.metadata!.encoding!).toString()).toBe('binary/encrypted');
    const [decoded] = await new EncryptionCodec(plane.secrets).decode([summary as Payload]);
    expect(JSON.parse(Buffer.from(decoded!.data!).toString())).toBe('warning 60 s before the timeout');
  });

  test('a failed sandbox is a failed workflow, which nothing starts again and which can be deleted', async () => {
    driver.failNext.set('create', new DriverError('image_pull_failed', 'There is no such image'));
    const sandbox = await plane.admit();
    const { sandboxId } = sandbox;
    await plane.commands.start(sandbox, { wait: true });
    const handle = plane.client.workflow.getHandle(sandboxId);
    await expect(handle.result()).rejects.toMatchObject({
      cause: { type: 'image_pull_failed', message: 'The sandbox has failed: image_pull_failed' },
    });
    expect((await handle.describe()).status.name).toBe('FAILED');
    expect(await readDetails(sandboxId)).toBe('failed (image_pull_failed): There is no such image');
    await plane.commands.start(sandbox, { wait: true });
    const em = plane.orm.em.fork();
    requestStart(em, 'sandbox', sandboxId, toLifeStart(sandbox));
    await em.flush();
    await until(async () => (await plane.orm.em.fork().count(OutboxEntry, { workflowId: sandboxId })) === 0);
    expect(driver.calls.filter((call) => call === `create ${sandboxId}`)).toHaveLength(1);
    await expect(plane.commands.pause(sandbox, { wait: true })).rejects.toEqual(refusal('sandbox_ended'));
    await plane.commands.terminate(await plane.row(sandboxId), { forget: true });
    expect((await plane.row(sandboxId)).deletedAt).not.toBeNull();
  });

  test('the status is a search attribute, and a query returns what happens next', async () => {
    const sandbox = await runningSandbox({ autoPause: true });
    const handle = plane.client.workflow.getHandle(sandbox.sandboxId);
    expect(await handle.query(lifeQuery)).toMatchObject({
      status: 'running',
      nextAction: 'auto_pause',
      hostId: plane.hostId,
    });
    await until(async () => {
      const found = plane.client.workflow.list({
        query: `SandboxStatus = "running" and AccountId = "${plane.account.accountId}"`,
      });
      for await (const workflow of found) if (workflow.workflowId === sandbox.sandboxId) return true;
      return false;
    });
  });

  test('a sandbox that moves to another project is found under the new one', async () => {
    const sandbox = await runningSandbox();
    const [em, projectId] = [plane.orm.em.fork(), newId('project')];
    await createProject(em, plane.account, { projectId, name: projectId, description: '', isDefault: false }, 100);
    const scope = { rows: 'account' as const, accountId: plane.account.accountId };
    await moveSandboxToProject(em, scope, sandbox.sandboxId, projectId);
    await until(async () => {
      const { searchAttributes } = await plane.client.workflow.getHandle(sandbox.sandboxId).describe();
      return searchAttributes.ProjectId?.[0] === projectId;
    });
  });

  test('no payload of a history can be read without the key', async () => {
    const sandbox = await runningSandbox();
    const history = await plane.client.workflow.getHandle(sandbox.sandboxId).fetchHistory();
    const payloads = payloadsIn(history.events);
    const readEncoding = ({ metadata }: Payload) => Buffer.from(metadata!.encoding!).toString();
    const [encrypted, plain] = [
      payloads.filter((payload) => readEncoding(payload) === 'binary/encrypted'),
      payloads.filter((payload) => readEncoding(payload) !== 'binary/encrypted'),
    ];
    expect(encrypted.length).toBeGreaterThan(4);
    for (const { data } of plain) {
      expect(Object.keys(JSON.parse(Buffer.from(data!).toString())).sort()).toEqual(localActivityFields);
    }
    for (const { data } of payloads) expect(Buffer.from(data!).includes(sandbox.sandboxId)).toBe(false);
    // Decrypted, they contain the id, so the search above could have found it.
    const decoded = await new EncryptionCodec(plane.secrets).decode(encrypted);
    expect(decoded.some(({ data }) => Buffer.from(data!).includes(sandbox.sandboxId))).toBe(true);
    expect(history.events!.length).toBeLessThan(30);
  });
});
