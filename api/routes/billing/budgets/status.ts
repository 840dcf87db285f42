import { z } from 'zod';
import { readPeriodUsage } from '../../../../db/billing/budget-checks.ts';
import { findBudget } from '../../../../db/billing/budget-rows.ts';
import {
  checkIntervalMinutes,
  cooldownHours,
  limitTypes,
  percentageUsed,
  remainingOf,
} from '../../../../domain/billing/budget.ts';
import { decimal, toJsonNumber } from '../../../../domain/billing/money.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { presentThresholds, thresholdSchema } from './budget-schema.ts';

const budgetStatus = z
  .object({
    budget_id: z.int(),
    account_id: z.string(),
    budget_amount: amount(),
    amount_used: amount().describe('The cost of usage since the period began, to a millionth'),
    percentage_used: z.number().min(0).describe('Rounded down, so that 100 means fully used'),
    remaining_budget: amount().min(0),
    currency: currency(),
    limit_type: z.enum(limitTypes),
    is_restricted: z.boolean(),
    is_active: z.boolean(),
    period_start: time(),
    period_end: time(),
    alert_thresholds: z.array(thresholdSchema),
    check_interval_minutes: z.int(),
    cooldown_hours: z
      .int()
      .describe('After a change of the amount, a threshold is reported again only after this many hours'),
  })
  .meta({ id: 'BudgetStatus' });

/** `GET /v1/budgets/status`: the used part of the budget. */
export function getBudgetStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/budgets/status',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBudgetStatus',
      tags: ['Budgets'],
      summary: 'See how much of the budget is used',
      description:
        'The usage in the current period, and its share of the budget. `data` is null if the account has no budget.',
      response: { 200: envelope(budgetStatus.nullable(), 'The status, or null'), ...failures('root_required') },
    },
    handler: async (request) => {
      const { accountId } = callerOf(request);
      const em = deps.orm.em.fork();
      const budget = await findBudget(em, accountId);
      if (!budget) return success(null);
      const { used, period } = await readPeriodUsage(em, accountId, new Date());
      return success({
        budget_id: budget.id,
        account_id: accountId,
        budget_amount: toJsonNumber(budget.amount),
        amount_used: toJsonNumber(decimal(used).round(6, 0).toFixed(6)),
        percentage_used: toJsonNumber(percentageUsed(used, budget.amount)),
        remaining_budget: toJsonNumber(remainingOf(used, budget.amount)),
        currency: budget.currency,
        limit_type: budget.limitType,
        is_restricted: budget.isRestricted,
        is_active: budget.isActive,
        period_start: period.start,
        period_end: period.end,
        alert_thresholds: presentThresholds(budget.alertThresholds),
        check_interval_minutes: checkIntervalMinutes,
        cooldown_hours: cooldownHours,
      });
    },
  });
}
