import os from 'node:os';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { temporal } from '@temporalio/proto';
import { Worker } from '@temporalio/worker';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { createDataConverter } from '../../platform/temporal/data-converter.ts';
import { ensureWorkflowBundle } from '../../worker/workflow-bundle.ts';
import { testSecretKey } from '../support/control-plane.ts';
import { readHistory, recordedHistories } from '../support/recorded-histories.ts';

const expected = [
  'billing-cancelled',
  'billing-next-run-first',
  'billing-next-run-second',
  'billing-years',
  'budget',
  'budget-check-of-a-period',
  'budget-mail',
  'disk-copy',
  'email-change',
  'email-change-cancelled',
  'email-change-expired',
  'host',
  'host-loss-first-run',
  'host-loss-second-run',
  'image-collection',
  'image-import-cancelled',
  'image-import-completed',
  'image-import-failed',
  'image-removal',
  'invoice-mail',
  'maintenance',
  'maintenance-replaces-workflows',
  'password-reset',
  'password-reset-expired',
  'password-reset-refused',
  'plan-change-declined',
  'plan-change-paid',
  'reconciliation',
  'sandbox-adopted',
  'sandbox-batch-ending',
  'sandbox-cancelled',
  'sandbox-commands-after-direct-moves',
  'sandbox-connect-during-direct-resume',
  'sandbox-deletion',
  'sandbox-deletion-of-an-orphan',
  'sandbox-direct-pause-failed',
  'sandbox-direct-pause-unheard',
  'sandbox-direct-resume-failed',
  'sandbox-direct-resume-unheard',
  'sandbox-disk-lost-paused',
  'sandbox-disk-lost-running',
  'sandbox-ended-in-batch',
  'sandbox-exited-after-direct-resume',
  'sandbox-failed',
  'sandbox-host-disk-pressure',
  'sandbox-host-full',
  'sandbox-host-lost',
  'sandbox-host-lost-after-direct-pause',
  'sandbox-host-lost-after-direct-resume',
  'sandbox-host-lost-before-its-workflow',
  'sandbox-host-lost-while-starting',
  'sandbox-host-restarted',
  'sandbox-moved-directly',
  'sandbox-next-run-first',
  'sandbox-next-run-second',
  'sandbox-pause-after-direct-resume',
  'sandbox-paused-and-resumed',
  'sandbox-paused-before-its-timeout',
  'sandbox-paused-before-its-workflow',
  'sandbox-paused-twice',
  'sandbox-ports-changed',
  'sandbox-restarted',
  'sandbox-restarted-after-direct-pause',
  'sandbox-runtime-exited',
  'sandbox-started-directly',
  'sandbox-terminated',
  'sandbox-terminated-while-pausing',
  'sandbox-terminated-while-resuming',
  'sandbox-terminated-while-starting',
  'sandbox-two-callers',
  'sandbox-usage-recorded',
  'template-build-completed',
  'template-build-failed',
  'user-deletion',
  'user-invitation',
  'webhook-delivery-cancelled',
  'webhook-delivery-delivered',
  'webhook-delivery-failed',
];

async function replay(history: temporal.api.history.v1.History): Promise<void> {
  const codePath = await ensureWorkflowBundle(path.join(os.tmpdir(), 'sandbox-platform-test-bundles'));
  const dataConverter = createDataConverter(deriveSecrets({ PLATFORM_SECRET_KEY: testSecretKey }));
  await Worker.runReplayHistory({ workflowBundle: { codePath }, dataConverter }, history, 'replayed');
}

/**
 * Workflows that began under an earlier version must continue under this one. The histories come from real runs:
 * `RECORD_HISTORIES=1 npm test -- record-histories`, and other tests that call `recordHistory`. A change that breaks one
 * of them needs `patched()`.
 */
describe('recorded histories replay on the present code', () => {
  test('there is a history for every workflow type and every path of a sandbox', () => {
    expect(recordedHistories().sort()).toEqual(expected);
  });

  test.each(expected)('%s', (name) => expect(replay(readHistory(name))).resolves.toBeUndefined());
});

test('a history that differs from the code fails', async () => {
  const history = readHistory('sandbox-terminated');
  const scheduled = history.events.find((event) => event.activityTaskScheduledEventAttributes);
  scheduled!.activityTaskScheduledEventAttributes!.activityType!.name = 'anotherActivity';
  await expect(replay(history)).rejects.toThrow(/[Nn]ondeterminism/);
});
