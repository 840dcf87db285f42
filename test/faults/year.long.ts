import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { type ControlPlane, startTimeSkippingPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { until } from '../support/until.ts';

const commands = Number(process.env.FAULTS_COMMANDS ?? 10_000);
const driver = new MemoryDriver();
let environment: TestWorkflowEnvironment;
let plane: ControlPlane;
let stop: () => Promise<void>;

beforeAll(async () => {
  ({ environment, plane, stop } = await startTimeSkippingPlane(driver));
}, 120_000);
afterAll(() => stop());

test(`a sandbox that lives a year with ${commands} commands never has a history of 10,000 events`, async () => {
  const sandbox = await plane.admit();
  const { sandboxId } = sandbox;
  await plane.commands.start(sandbox, { wait: true });
  const handle = plane.client.workflow.getHandle(sandboxId);
  const runs = new Set<string>();
  const yearSeconds = 365 * 86_400;
  let timeoutSeconds = 2 * yearSeconds;
  const steps = commands / 10;
  for (let step = 0; step < steps; step++) {
    const changes = Array.from({ length: 10 }, () => {
      timeoutSeconds += 1;
      return plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
    });
    await Promise.all(changes);
    await environment.sleep((yearSeconds / steps) * 1000);
    runs.add((await handle.describe()).runId);
  }
  await plane.commands.setTimeout(sandbox, { timeoutSeconds: timeoutSeconds + 1, mustRaise: true });
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'running', timeoutSeconds: timeoutSeconds + 1 });
  await plane.commands.terminate(sandbox, { forget: false });
  await until(async () => (await plane.row(sandboxId)).status === 'terminated');
  const { runningMs } = await plane.row(sandboxId);
  expect(runningMs / 1000).toBeGreaterThanOrEqual(yearSeconds);

  const lengths: number[] = [];
  for (const runId of runs) {
    const { events } = await plane.client.workflow.getHandle(sandboxId, runId).fetchHistory();
    lengths.push(events!.length);
  }
  process.stdout.write(`${runs.size} runs, events of each: ${lengths.join(' ')}\n`);
  expect(runs.size).toBeGreaterThan(1);
  expect(Math.max(...lengths)).toBeLessThan(10_000);
}, 3_600_000);
