import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { hostReportSignal } from '../../workflows/sandbox/messages.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';

/** Continue-as-new, on a Temporal that suggests it after 100 events. */
let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro', relay: false, shortHistory: true });
}, 120_000);
afterAll(() => plane?.stop());

test('a sandbox with a long history continues in a next run of its workflow, without losing a command', async () => {
  const sandbox = await plane.admit();
  const { sandboxId } = sandbox;
  await plane.commands.start(sandbox, { wait: true });
  await plane.commands.pause(sandbox, { wait: true });
  await plane.commands.resume(sandbox, { wait: true });
  const handle = plane.client.workflow.getHandle(sandboxId);
  const firstRun = (await handle.describe()).runId;
  let timeoutSeconds = 300;
  while ((await handle.describe()).runId === firstRun) {
    expect(timeoutSeconds).toBeLessThan(1000);
    const changes = Array.from({ length: 8 }, async () => {
      timeoutSeconds += 1;
      await plane.commands.setTimeout(sandbox, { timeoutSeconds, mustRaise: false });
    });
    for (const result of await Promise.allSettled(changes)) {
      // The server limits the updates in flight. The caller may try again.
      if (result.status === 'rejected') expect(result.reason.code).toBe('too_many_requests');
    }
  }
  await plane.commands.setTimeout(sandbox, { timeoutSeconds: 3000, mustRaise: true });
  expect(await plane.row(sandboxId)).toMatchObject({ status: 'running', timeoutSeconds: 3000 });
  expect((await handle.describe()).searchAttributes.SandboxStatus).toEqual(['running']);
  // The next run knows the number of the present processes, so it drops a report about earlier ones.
  await handle.signal(hostReportSignal, { kind: 'memoryLost', run: 1, at: new Date().toISOString() });
  await plane.commands.pause(sandbox, { wait: true });
  const secondRun = (await handle.describe()).runId;
  await plane.commands.terminate(sandbox, { forget: false });
  await plane.client.workflow.getHandle(sandboxId, secondRun).result();
  expect((await plane.row(sandboxId)).status).toBe('terminated');
  if (process.env.RECORD_HISTORIES !== '1') return;
  await recordHistory(plane.client, 'sandbox-next-run-first', sandboxId, firstRun);
  await recordHistory(plane.client, 'sandbox-next-run-second', sandboxId, secondRun);
}, 180_000);
