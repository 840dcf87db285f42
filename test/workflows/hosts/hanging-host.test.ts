import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { createAccount } from '../../../db/accounts/accounts.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { createDataConverter } from '../../../platform/temporal/data-converter.ts';
import { ensureWorkflowBundle } from '../../../worker/workflow-bundle.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { until } from '../../support/until.ts';

/** Work on a host that never completes: a terminate cancels it, and other accounts do not wait for it. */
const driver = new MemoryDriver();
const slots = 8;
let plane: ControlPlane;

beforeAll(async () => {
  const hostWorker = { slots, accountShare: 3 };
  plane = await startControlPlane({ driver, planName: 'enterprise', relay: false, hostWorker });
}, 120_000);
afterAll(() => plane?.stop());
afterEach(() => driver.hangs.clear());

async function running(accountId = plane.account.accountId) {
  const sandbox = await plane.admit({ accountId });
  await plane.commands.start(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
}

async function paused() {
  const sandbox = await running();
  await plane.commands.pause(sandbox, { wait: true });
  return plane.row(sandbox.sandboxId);
}

/** A terminate cancels the hanging work before its time limit. */
async function endsSoon(sandboxId: SandboxId): Promise<void> {
  await plane.commands.terminate(await plane.row(sandboxId), { forget: false });
  const handle = plane.client.workflow.getHandle(sandboxId);
  await handle.result();
  const { events } = await handle.fetchHistory();
  expect(events!.filter((event) => event.activityTaskTimedOutEventAttributes)).toEqual([]);
  expect((await plane.row(sandboxId)).status).toBe('terminated');
  expect(driver.hanging.has(sandboxId)).toBe(false);
  expect(driver.calls).toContain(`remove ${sandboxId}`);
}

/** The history replays, so another worker could continue the workflow. */
async function replays(sandboxId: SandboxId): Promise<void> {
  const codePath = await ensureWorkflowBundle(path.join(os.tmpdir(), 'sandbox-platform-test-bundles'));
  const dataConverter = createDataConverter(plane.secrets);
  const history = await plane.client.workflow.getHandle(sandboxId).fetchHistory();
  await Worker.runReplayHistory({ workflowBundle: { codePath }, dataConverter }, history, sandboxId);
}

test('a terminate cancels a start that hangs', async () => {
  driver.hangs.add('create all');
  const { sandboxId } = await plane.admit();
  const started = plane.commands.start(await plane.row(sandboxId), { wait: true });
  await until(() => driver.hanging.has(sandboxId));
  await endsSoon(sandboxId);
  await replays(sandboxId);
  await started;
}, 180_000);

test.each([true, false])('a terminate cancels a pause that hangs (its caller waits: %s)', async (wait) => {
  const sandbox = await running();
  const { sandboxId } = sandbox;
  driver.hangs.add(`pause ${sandboxId}`);
  const pausing = plane.commands.pause(sandbox, { wait }).catch((error) => error);
  await until(() => driver.hanging.has(sandboxId));
  await endsSoon(sandboxId);
  if (wait) expect(await pausing).toMatchObject({ code: 'sandbox_ended' });
});

test.each([true, false])('a terminate cancels a resume that hangs (its caller waits: %s)', async (wait) => {
  const sandbox = await paused();
  const { sandboxId } = sandbox;
  driver.hangs.add(`resume ${sandboxId}`);
  const resuming = plane.commands.resume(sandbox, { wait }).catch((error) => error);
  await until(() => driver.hanging.has(sandboxId));
  await endsSoon(sandboxId);
  if (wait) expect(await resuming).toMatchObject({ code: 'sandbox_ended' });
});

test.each(['running', 'paused'])('a terminate cancels a restart that hangs, from %s', async (from) => {
  const sandbox = from === 'paused' ? await paused() : await running();
  const { sandboxId } = sandbox;
  driver.hangs.add(`restart ${sandboxId}`);
  const restarting = plane.commands.restart(sandbox, { storage: null }).catch((error) => error);
  await until(() => driver.hanging.has(sandboxId));
  await endsSoon(sandboxId);
  await replays(sandboxId);
  expect(await restarting).toMatchObject({ code: 'sandbox_ended' });
});

test('a terminate that arrives while a pause or resume is being recorded cancels it', async () => {
  for (const kind of ['pause', 'resume'] as const) {
    const sandbox = kind === 'pause' ? await running() : await paused();
    const { sandboxId } = sandbox;
    driver.hangs.add(`${kind} ${sandboxId}`);
    const asked = plane.commands[kind](sandbox, { wait: false }).catch(() => {});
    await endsSoon(sandboxId);
    await replays(sandboxId);
    await asked;
  }
}, 180_000);

test('an account whose sandboxes all hang uses only its share of a host: other accounts can start sandboxes, and the account can terminate its own', async () => {
  const email = 'neighbour@example.com';
  const wanted = { email, displayName: 'Neighbour', planName: 'enterprise', role: 'user' } as const;
  const neighbour = await plane.orm.em.fork().transactional((em) => createAccount(em, wanted));
  const owner = { accountId: neighbour.accountId, ownerUserId: neighbour.userId, projectId: neighbour.projectId };
  const create = async () => {
    const sandbox = await plane.admit(owner);
    await plane.commands.start(sandbox, { wait: true });
    expect((await plane.row(sandbox.sandboxId)).status).toBe('running');
  };
  const hostile = [];
  for (let at = 0; at < 2 * slots; at += 1) hostile.push(await paused());
  driver.hangs.add('resume all');
  const resumes = hostile.map((sandbox) => plane.commands.resume(sandbox, { wait: true }).catch((error) => error));
  await until(() => driver.hanging.size === 3);
  // The hanging ones hang until they are cancelled, so a create that waited for them would not start earlier.
  for (let created = 0; created < 5; created += 1) await create();
  expect(driver.hanging.size).toBe(3);

  const ends = hostile.map(({ sandboxId }) => endsSoon(sandboxId));
  await Promise.all(ends);
  for (const outcome of await Promise.all(resumes)) expect(outcome).toMatchObject({ code: 'sandbox_ended' });
  expect(driver.hanging.size).toBe(0);
}, 120_000);
