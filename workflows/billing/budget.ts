import {
  condition,
  continueAsNew,
  defineSignal,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { BudgetActivities } from '../../activities/billing/budgets.ts';
import type { BudgetInput, Workflows } from '../../domain/workflow-registry.ts';
import { database } from '../activity-profiles.ts';

/** A sandbox was admitted, or the budget was made, changed or deleted. */
export const checkBudgetSignal = defineSignal<[Workflows['budget']['signals']['checkBudget']]>('checkBudget');

const rows = proxyLocalActivities<BudgetActivities>(database);

/** The shortest time between two checks. One check covers all sandboxes that were made meanwhile. */
const minBetweenMs = 1000;

/**
 * Watches an account's budget while it exists. Compares the usage with the budget every few minutes, when a period
 * begins, and on each `checkBudget` signal. Workflow id: `acc-…/budget`.
 */
export async function budget({ accountId }: BudgetInput): Promise<void> {
  let isAsked = false;
  setHandler(checkBudgetSignal, () => {
    isAsked = true;
  });
  for (;;) {
    isAsked = false;
    const checkedAtMs = Date.now();
    const nextAtMs = await rows.checkBudget({ accountId, atMs: checkedAtMs });
    if (nextAtMs === null && !isAsked) {
      setCurrentDetails('the budget is deleted');
      return;
    }
    setCurrentDetails(
      `checked ${new Date(checkedAtMs).toISOString()}; next check ${new Date(nextAtMs ?? checkedAtMs).toISOString()}`,
    );
    // The next run begins with a check, so a pending signal is not lost.
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof budget>({ accountId });
    const isEarly = await condition(() => isAsked, Math.max(1, (nextAtMs ?? 0) - Date.now()));
    const restMs = checkedAtMs + minBetweenMs - Date.now();
    if (isEarly && restMs > 0) await sleep(restMs);
  }
}
