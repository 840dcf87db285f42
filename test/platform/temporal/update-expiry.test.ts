import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { Client, type WorkflowUpdateFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { updateWaitMs } from '../../../domain/update-expiry.ts';
import { updateExpiry } from '../../../platform/temporal/update-expiry.ts';
import { timeoutUpdate } from '../../../workflows/sandboxes/life/messages.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';

let plane: ControlPlane;

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro' });
}, 120_000);
afterAll(() => plane.stop());
afterEach(() => {
  jest.restoreAllMocks();
});

/** The clock of each client, while all of them wait at the same time. */
const aheadMs = new AsyncLocalStorage<number>();
const clocks = { right: 0, 'a minute behind': -60_000, 'a minute ahead': 60_000 };

/** Sends a command at once, and one that arrives after its client has given up. */
async function sendTwo(): Promise<{ sent: number; refusal: unknown; kept: number }> {
  const { sandboxId } = await plane.admit();
  const { connection, options } = plane.client;
  let delayMs = 0;
  const client = new Client({
    connection,
    namespace: options.namespace,
    dataConverter: options.dataConverter,
    interceptors: {
      workflow: [
        updateExpiry(options.dataConverter),
        { startUpdate: (input, next) => delay(delayMs).then(() => next(input)) },
      ],
    },
  });
  const handle = client.workflow.getHandle(sandboxId);
  const change = (timeoutSeconds: number) =>
    handle.executeUpdate(timeoutUpdate, { args: [{ timeoutSeconds, mustRaise: false }] });
  await plane.commands.start(await plane.row(sandboxId), { wait: true });
  const { timeoutSeconds: sent } = await change(700);
  delayMs = updateWaitMs + 3000;
  const refusal = await change(800).then(
    () => Promise.reject(new Error('it was carried out')),
    (error: WorkflowUpdateFailedError) => (error.cause as ApplicationFailure).type,
  );
  return { sent, refusal, kept: (await plane.row(sandboxId)).timeoutSeconds };
}

test('a client sends commands whatever its clock shows; one that arrives after the client has given up is refused', async () => {
  const now = Date.now;
  jest.spyOn(Date, 'now').mockImplementation(() => now() + (aheadMs.getStore() ?? 0));
  const replies = await Promise.all(
    Object.entries(clocks).map(async ([clock, ms]) => [clock, await aheadMs.run(ms, sendTwo)] as const),
  );
  const expected = { sent: 700, refusal: 'temporarily_unavailable', kept: 700 };
  expect(Object.fromEntries(replies)).toEqual({
    right: expected,
    'a minute behind': expected,
    'a minute ahead': expected,
  });
}, 120_000);
