import {
  condition,
  continueAsNew,
  defineSignal,
  proxyLocalActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { BudgetActivities } from '../activities/budgets.ts';
import type { BudgetInput, Workflows } from '../domain/workflow-registry.ts';
import { database } from './activity-profiles.ts';

/** A sandbox was admitted, or the budget was made, changed or deleted. */
export const checkBudgetSignal = defineSignal<[Workflows['budget']['signals']['checkBudget']]>('checkBudget');

const rows = proxyLocalActivities<BudgetActivities>(database);

/** Between two checks, however many sandboxes are made: one check is for all of them. */
const leastBetweenMs = 1000;

/**
 * The budget of an account for as long as it exists: compares the usage with it every few minutes, when a period begins,
 * and when it is asked to. Workflow id: `acc-…/budget`.
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
    if (nextAtMs === null && !isAsked) return;
    // The next run begins with a check, which is what a signal asks for.
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof budget>({ accountId });
    const isEarly = await condition(() => isAsked, Math.max(1, (nextAtMs ?? 0) - Date.now()));
    const restMs = checkedAtMs + leastBetweenMs - Date.now();
    if (isEarly && restMs > 0) await sleep(restMs);
  }
}
