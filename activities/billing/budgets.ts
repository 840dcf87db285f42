import { checkBudget } from '../../db/billing/budget-checks.ts';
import { findBudgetMessage, recordBudgetMailSent } from '../../db/billing/budget-messages.ts';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import type { Orm } from '../../db/orm.ts';
import type { AccountId } from '../../domain/ids.ts';
import { isBilled } from '../../platform/config/billing.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** Activities on the rows of budgets. */
export function createBudgetActivities({ orm, plans, settings }: { orm: Orm; plans: PlanCatalog; settings: Settings }) {
  const rules = {
    currency: plans.currency,
    isBilled: isBilled(settings),
    pausesSandboxes: settings.PLATFORM_USED_UP_BUDGET === 'pause',
  };
  return {
    /**
     * Compares the usage of an account with its budget. Times are Unix milliseconds.
     * @returns the time of the next check; null when the account has no budget
     */
    checkBudget: ({ accountId, atMs }: { accountId: AccountId; atMs: number }): Promise<number | null> =>
      checkBudget(orm.em, rules, accountId, new Date(atMs)),
    countBudgetMailRecipients: async (messageId: string): Promise<number> =>
      (await findBudgetMessage(orm.em, messageId))?.emailRecipients.length ?? 0,
    recordBudgetMailSent: (messageId: string): Promise<void> => recordBudgetMailSent(orm.em, messageId),
  };
}

export type BudgetActivities = ReturnType<typeof createBudgetActivities>;
