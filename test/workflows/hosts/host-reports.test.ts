import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { WithStartWorkflowOperation } from '@temporalio/client';
import { toLifeStart } from '../../../db/sandboxes/admission.ts';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { controlTaskQueues } from '../../../domain/task-queues.ts';
import { DriverError } from '../../../runtime/driver.ts';
import {
  type CarriedState,
  type HostReport,
  hostLostSignal,
  hostReportSignal,
  resumeUpdate,
  settledUpdate,
} from '../../../workflows/sandboxes/life/messages.ts';
import type { sandbox as sandboxWorkflow } from '../../../workflows/sandboxes/life/workflow.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';

/** Reports of hosts about processes that ended or are gone, in every order with commands. */
const driver = new MemoryDriver();
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver, planName: 'pro', relay: false });
}, 120_000);
afterAll(() => plane.stop());
afterEach(() => driver.holds.clear());

const started = async () => {
  const sandbox = await plane.admit();
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
};
const report = ({ sandboxId }: Sandbox, what: HostReport) =>
  plane.client.workflow.getHandle(sandboxId).signal(hostReportSignal, what);
const memoryLost = (run: number | null): HostReport => ({ kind: 'memoryLost', run, at: new Date().toISOString() });
const exited = (run: number | null): HostReport => {
  const exit = { exitCode: 1, outOfMemory: false, commandOutput: '', at: new Date().toISOString() };
  return { kind: 'exited', run, exit };
};
const diskLost = (run: number | null): HostReport => ({ kind: 'diskLost', run });
const diskPressure = (run: number, ended: boolean): HostReport => ({ kind: 'diskPressure', run, ended });
/** When this returns, the workflow has read every signal that was sent before. */
const allSignalsRead = (sandbox: Sandbox) =>
  plane.commands.setTimeout(sandbox, { timeoutSeconds: 300, mustRaise: false });

/** Holds calls of that kind until the returned function is called. */
function hold(kind: 'resume'): () => void {
  let release = () => {};
  driver.holds.set(
    kind,
    new Promise((resolve) => {
      release = resolve;
    }),
  );
  return () => {
    driver.holds.delete(kind);
    release();
  };
}

/**
 * Ends the workflow's run and starts the next one with carried state, as continue-as-new does, together with an update.
 */
async function startCarried(
  sandbox: Sandbox,
  carried: Pick<CarriedState, 'status' | 'reports'>,
  send: (start: WithStartWorkflowOperation<typeof sandboxWorkflow>) => Promise<unknown>,
): Promise<void> {
  const { sandboxId } = sandbox;
  await plane.client.workflow.getHandle(sandboxId).terminate();
  const times = { timeoutFromMs: Date.now(), pausedAtMs: Date.now(), usageRecordedMs: Date.now() };
  const life = { reason: null, memoryKept: true, run: 1, attempts: 1, ...times, ...carried };
  const start = new WithStartWorkflowOperation<typeof sandboxWorkflow>('sandbox', {
    workflowId: sandboxId,
    taskQueue: controlTaskQueues.sandboxes,
    workflowIdConflictPolicy: 'FAIL',
    args: [{ ...toLifeStart(sandbox), carried: life }],
  });
  await send(start);
}

/** Whether the row agrees with the driver. */
async function agrees({ sandboxId }: Sandbox): Promise<boolean> {
  const { status, holdsCompute } = await plane.row(sandboxId);
  const state = driver.states.get(sandboxId);
  if (status === 'running') return state === 'running';
  if (status === 'paused') return holdsCompute ? state === 'paused' : state === 'exited';
  return (status === 'terminated' || status === 'failed') && state === undefined;
}

describe('a report on processes that a resume has replaced', () => {
  const reports = {
    'memory lost': memoryLost(1),
    exited: exited(1),
    'frozen by disk pressure': diskPressure(1, false),
    'ended by disk pressure': diskPressure(1, true),
  };
  test.each(Object.entries(reports))('is dropped when it arrives during the resume: %s', async (_, late) => {
    const sandbox = await started();
    await plane.commands.pause(sandbox, { wait: true });
    driver.states.set(sandbox.sandboxId, 'exited');
    const release = hold('resume');
    const resumed = plane.commands.resume(sandbox, { wait: true });
    await until(() => driver.calls.includes(`resume ${sandbox.sandboxId}`));
    await report(sandbox, late);
    release();
    await resumed;
    await allSignalsRead(sandbox);
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'running', run: 2 });
  });

  test.each(Object.entries(reports))('is dropped when it arrives after the resume: %s', async (_, late) => {
    const sandbox = await started();
    await plane.commands.pause(sandbox, { wait: true });
    await plane.commands.resume(sandbox, { wait: true });
    await report(sandbox, late);
    await allSignalsRead(sandbox);
    expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
  });

  test('is dropped when it has no run number and the resume arrives with it', async () => {
    const sandbox = await started();
    await plane.commands.pause(sandbox, { wait: true });
    driver.states.set(sandbox.sandboxId, 'exited');
    // This run of the workflow begins with the report and the resume.
    await startCarried(sandbox, { status: 'paused', reports: [memoryLost(null)] }, (start) =>
      plane.client.workflow.executeUpdateWithStart(resumeUpdate, {
        args: [{ wait: true }],
        startWorkflowOperation: start,
      }),
    );
    await allSignalsRead(sandbox);
    expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'running', run: 2 });
  });
});

test('a report on the new processes that arrives during the resume takes effect after it', async () => {
  const sandbox = await started();
  await plane.commands.pause(sandbox, { wait: true });
  const release = hold('resume');
  const resumed = plane.commands.resume(sandbox, { wait: true });
  await until(() => driver.calls.includes(`resume ${sandbox.sandboxId}`));
  await report(sandbox, memoryLost(2));
  release();
  await resumed;
  driver.states.set(sandbox.sandboxId, 'exited');
  await until(() => agrees(sandbox));
  expect(await plane.row(sandbox.sandboxId)).toMatchObject({ status: 'paused', reason: 'host_restarted' });
});

describe('a sandbox whose disk is lost fails, releases its capacity, and can be deleted:', () => {
  const pause = (sandbox: Sandbox) => plane.commands.pause(sandbox, { wait: true });
  const before: Record<string, (sandbox: Sandbox) => Promise<unknown>> = {
    'while it runs': async () => {},
    'while it is paused': pause,
    'while it is paused without processes': async (sandbox) => {
      await pause(sandbox);
      await report(sandbox, memoryLost(1));
      await until(async () => !(await plane.row(sandbox.sandboxId)).holdsCompute);
    },
  };
  const both = Object.keys(before).flatMap((when): [string, number | null][] => [
    [when, 1],
    [when, null],
  ]);
  test.each(both)('%s, run %s', async (when, run) => {
    const sandbox = await started();
    const { sandboxId } = sandbox;
    await before[when]!(sandbox);
    await report(sandbox, diskLost(run));
    await until(async () => !(await plane.row(sandboxId)).holdsDisk);
    const failure = { message: 'The sandbox and its disk are gone from this host' };
    const lost = { status: 'failed', reason: 'disk_lost', failure, holdsCompute: false, lifecycleOutcome: 'failed' };
    expect(await plane.row(sandboxId)).toMatchObject(lost);
    expect(await agrees(sandbox)).toBe(true);
    await plane.commands.terminate(await plane.row(sandboxId), { forget: true });
    await until(async () => (await plane.row(sandboxId)).deletedAt !== null);
  });

  test('during a resume, which fails', async () => {
    const sandbox = await started();
    await pause(sandbox);
    const release = hold('resume');
    const resumed = plane.commands.resume(sandbox, { wait: true });
    await until(() => driver.calls.includes(`resume ${sandbox.sandboxId}`));
    driver.failNext.set('resume', new DriverError('sandbox_absent', 'The sandbox and its disk are gone'));
    await report(sandbox, diskLost(1));
    release();
    await expect(resumed).rejects.toMatchObject({ code: 'resume_failed' });
    await until(async () => (await plane.row(sandbox.sandboxId)).reason === 'disk_lost');
  });

  test('even when lost memory is reported at the same time', async () => {
    const sandbox = await started();
    const reports = [memoryLost(1), exited(1), diskLost(1)];
    await startCarried(sandbox, { status: 'running', reports }, (start) =>
      plane.client.workflow.executeUpdateWithStart(settledUpdate, { startWorkflowOperation: start }),
    );
    await until(async () => (await plane.row(sandbox.sandboxId)).reason === 'disk_lost');
  });
});

test('a late report of a lost host does not fail a sandbox that runs there again', async () => {
  const sandbox = await started();
  await plane.commands.pause(sandbox, { wait: true });
  await plane.commands.resume(sandbox, { wait: true });
  const handle = plane.client.workflow.getHandle(sandbox.sandboxId);
  await handle.signal(hostLostSignal, { hostId: plane.hostId, run: 1 });
  await allSignalsRead(sandbox);
  expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
  await handle.signal(hostLostSignal, { hostId: plane.hostId, run: 2 });
  await until(async () => (await plane.row(sandbox.sandboxId)).status === 'failed');
});

test('a report that one run of the workflow carries to the next takes effect there', async () => {
  const sandbox = await started();
  const { sandboxId } = sandbox;
  driver.states.set(sandboxId, 'exited');
  await startCarried(sandbox, { status: 'running', reports: [memoryLost(0), memoryLost(1)] }, (start) =>
    plane.client.workflow.executeUpdateWithStart(settledUpdate, { startWorkflowOperation: start }),
  );
  await until(() => agrees(sandbox));
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'paused', reason: 'host_restarted' });
  await plane.commands.resume(sandbox, { wait: true });
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'running', run: 2 });
});

test('a sandbox whose processes the host ended under disk pressure is paused, even if other ends are reported', async () => {
  const sandbox = await started();
  const { sandboxId } = sandbox;
  driver.states.set(sandboxId, 'exited');
  const reports = [diskPressure(1, false), exited(1), memoryLost(1), diskPressure(1, true)];
  await startCarried(sandbox, { status: 'running', reports }, (start) =>
    plane.client.workflow.executeUpdateWithStart(settledUpdate, { startWorkflowOperation: start }),
  );
  await until(() => agrees(sandbox));
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'paused', reason: 'host_disk_pressure' });
});

test('a sandbox that the host froze under disk pressure is paused; one whose processes then exited has failed', async () => {
  const frozen = await started();
  await report(frozen, diskPressure(1, false));
  await until(async () => (await plane.row(frozen.sandboxId)).status === 'paused');
  expect(await agrees(frozen)).toBe(true);
  const ended = await started();
  const reports = [diskPressure(1, false), exited(1)];
  await startCarried(ended, { status: 'running', reports }, (start) =>
    plane.client.workflow.executeUpdateWithStart(settledUpdate, { startWorkflowOperation: start }),
  );
  await until(async () => (await plane.row(ended.sandboxId)).status === 'failed');
  expect((await plane.row(ended.sandboxId)).reason).toBe('runtime_exited');
});

/** Reproducible random numbers (mulberry32). */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** Sends a few commands and reports at once, several times; after each round, row and driver must agree. */
test.each(Array.from({ length: 12 }, (_, index) => index + 1))(
  'row and driver agree after interleaved reports and commands, seed %i',
  async (seed) => {
    const random = seeded(seed);
    const sandbox = await started();
    const { sandboxId } = sandbox;
    const sentSoFar: string[] = [];
    const command = (name: 'pause' | 'resume') => {
      sentSoFar.push(name);
      // The order decides whether it is refused. Row and driver must agree either way.
      return plane.commands[name](sandbox, { wait: random(2) === 0 }).catch((error) =>
        expect(error.code).toBeDefined(),
      );
    };
    for (let round = 0; round < 6; round++) {
      const run = driver.runs.get(sandboxId)!;
      const sent: Promise<unknown>[] = [];
      if (random(3) === 0) {
        sentSoFar.push('processes gone');
        driver.states.set(sandboxId, 'exited');
        sent.push(report(sandbox, memoryLost(run)));
      }
      for (let count = random(4); count > 0; count--) {
        const which = random(4);
        if (which === 0) sent.push(command('pause'));
        else if (which === 1) sent.push(command('resume'));
        else if (run > 1) {
          sentSoFar.push(which === 2 ? 'late memory lost' : 'late exited');
          sent.push(report(sandbox, which === 2 ? memoryLost(run - 1) : exited(run - 1)));
        }
      }
      await Promise.all(sent);
      await allSignalsRead(sandbox);
      sentSoFar.push('|');
      await until(() => agrees(sandbox)).catch(async (error) => {
        const { status, holdsCompute } = await plane.row(sandboxId);
        const found = `${status}, compute ${holdsCompute}, driver ${driver.states.get(sandboxId)}`;
        throw new Error(`${sentSoFar.join(', ')}: ${found}`, { cause: error });
      });
    }
    await plane.commands.terminate(sandbox, { forget: false });
    await report(sandbox, memoryLost(driver.runs.get(sandboxId)!)).catch((error) =>
      expect(error.name).toBe('WorkflowNotFoundError'),
    );
    await until(async () => (await plane.row(sandboxId)).status === 'terminated');
    expect(await agrees(sandbox)).toBe(true);
  },
);
