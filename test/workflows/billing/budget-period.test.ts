import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { findBudget } from '../../../db/billing/budget-rows.ts';
import { createBudget, deleteBudget } from '../../../db/billing/budgets.ts';
import { defaultAlertThresholds } from '../../../domain/billing/budget.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { addUsage, endPeriodIn } from '../../support/added-usage.ts';
import { type ControlPlane, startTimeSkippingPlane } from '../../support/control-plane.ts';
import { currentDetails } from '../../support/current-details.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';

/** The period of a subscription ends while a budget restricts. Time jumps to the next timer. */
let environment: TestWorkflowEnvironment;
let plane: ControlPlane;
let stop: (() => Promise<void>) | undefined;

beforeAll(async () => {
  ({ environment, plane, stop } = await startTimeSkippingPlane(new MemoryDriver(), { PLATFORM_BILLING: 'on' }));
}, 120_000);
afterAll(() => stop?.());

test('a new period lifts a restriction when it begins, without a request', async () => {
  const { accountId } = plane.account;
  const { em } = plane.orm;
  await endPeriodIn(em, accountId, '12 minutes');
  await addUsage(em, accountId, '10');
  const input = { amount: '10.00', limitType: 'hard' as const, notificationEmails: [] };
  await createBudget(em.fork(), { currency: 'USD', isBilled: true, pausesSandboxes: false }, accountId, 'bgt-period', {
    ...{ ...input, alertThresholds: defaultAlertThresholds },
  });
  const isRestricted = async () => (await findBudget(em.fork(), accountId))?.isRestricted;
  expect(await isRestricted()).toBe(true);
  const options = startOptions('budget', accountId, { accountId });
  const handle = await plane.client.workflow.start('budget', options);
  await environment.sleep('11m');
  expect(await isRestricted()).toBe(true);
  await environment.sleep('2m');
  expect(await isRestricted()).toBe(false);
  expect(await currentDetails(handle)).toMatch(/^checked 20.*Z; next check 20.*Z$/);
  const [restored] = (await em.fork().execute("select data from events where type = 'budget.restored'")) as unknown as {
    data: { because: string };
  }[];
  expect(restored!.data.because).toBe('new_period');

  await deleteBudget(em.fork(), accountId);
  await handle.signal('checkBudget', { because: 'edit' });
  await handle.result();
  expect(await currentDetails(handle)).toBe('the budget is deleted');
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'budget-check-of-a-period', options.workflowId);
  }
});
