import { continueAsNew, proxyActivities, proxyLocalActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { BillingActivities } from '../../activities/billing/periods.ts';
import type { PlanChangeInput } from '../../domain/workflow-registry.ts';
import { database, outside } from '../activity-profiles.ts';

const firstWaitMs = 2000;
const longestWaitMs = 5 * 60_000;

const rows = proxyLocalActivities<BillingActivities>(database);
const money = proxyActivities<BillingActivities>(outside.money);

/**
 * Changes an account to a more expensive plan: charges the part that the balance does not cover, then switches the
 * plan. If the charge fails, the change is undone. While the outcome is unknown, the workflow asks the processor again.
 * Workflow id: `acc-…/plan-change`.
 */
export async function planChange(input: PlanChangeInput): Promise<void> {
  const { changeId } = input;
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(2 * waitMs, longestWaitMs)) {
    const outcome = await money.chargePlanChange({ changeId, atMs: Date.now() });
    if (outcome !== 'unknown') break;
    await sleep(waitMs, { summary: 'the outcome of the charge is not known' });
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof planChange>(input);
  }
  await rows.endPlanChange({ changeId, atMs: Date.now() });
}
