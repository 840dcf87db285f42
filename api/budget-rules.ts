import type { BudgetRules } from '../db/billing/budget-checks.ts';
import { isBilled } from '../platform/config/billing.ts';
import type { ApiDependencies } from './dependencies.ts';

/** The budget rules of this platform. */
export const budgetRulesOf = ({ plans, settings }: ApiDependencies): BudgetRules => ({
  currency: plans.currency,
  isBilled: isBilled(settings),
  pausesSandboxes: settings.PLATFORM_USED_UP_BUDGET === 'pause',
});
