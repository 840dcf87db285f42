import { z } from 'zod';
import { readPeriodUsage } from '../../../db/billing/budget-checks.ts';
import { type BudgetMessage, listBudgetMessages as readMessages } from '../../../db/billing/budget-messages.ts';
import { findBudget } from '../../../db/billing/budget-rows.ts';
import {
  checkIntervalMinutes,
  computeRemaining,
  cooldownHours,
  limitTypes,
  percentageUsed,
  thresholdTypes,
} from '../../../domain/billing/budget.ts';
import { decimal, toJsonNumber } from '../../../domain/billing/money.ts';
import type { UserId } from '../../../domain/ids.ts';
import { accountRoot, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import {
  accountQuery,
  createPagingQuery,
  paginationSchema,
  presentPagination,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { presentThresholds, thresholdSchema } from './budgets.ts';
import { amount, currency } from './money.ts';

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
      const { accountId } = requireCaller(request);
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
        remaining_budget: toJsonNumber(computeRemaining(used, budget.amount)),
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

const message = z
  .object({
    id: z.string().meta({ examples: ['bgm-9ypjhn8d3fkq6w2mzx5v'] }),
    account_id: z.string(),
    threshold_percent: z.int(),
    threshold_type: z.enum(thresholdTypes).describe('`exceeded`: the whole amount was used'),
    usage_amount: amount(),
    budget_amount: amount(),
    currency: currency(),
    percentage_used: z.number().min(0),
    notification_id: z.string().nullable().describe("The caller's notification"),
    email_sent: z.boolean().describe('A mail server took the mail for at least one recipient'),
    email_recipients: z.string().describe('Addresses, separated by commas'),
    email_subject: z.string(),
    period_start: time(),
    period_end: time(),
    created_at: time(),
  })
  .meta({ id: 'BudgetMessage' });

/** `GET /v1/budgets/messages`: the reported thresholds, including those of deleted budgets. */
export function listBudgetMessages(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/budgets/messages',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listBudgetMessages',
      tags: ['Budgets'],
      summary: 'List the reports of reached thresholds, newest first',
      description: 'Each has the mail that was sent, and its recipients.',
      querystring: z.object({ ...createPagingQuery(20), ...accountQuery }),
      response: {
        200: envelope(z.object({ messages: z.array(message), pagination: paginationSchema }), 'A page of messages'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 20);
      const { messages, ...page } = await readMessages(deps.orm.em.fork(), requireScope(request), listing);
      const { userId } = requireCaller(request);
      return success({
        messages: messages.map((each) => present(each, userId)),
        pagination: presentPagination(listing, page),
      });
    },
  });
}

function present(each: BudgetMessage, caller: UserId): z.output<typeof message> {
  return {
    id: each.id,
    account_id: each.accountId,
    threshold_percent: each.thresholdPercent,
    threshold_type: each.thresholdType,
    usage_amount: toJsonNumber(each.usageAmount),
    budget_amount: toJsonNumber(each.budgetAmount),
    currency: each.currency,
    percentage_used: toJsonNumber(each.percentageUsed),
    notification_id: each.notificationIds[caller] ?? null,
    email_sent: each.emailSent,
    email_recipients: each.emailRecipients.join(', '),
    email_subject: each.emailSubject,
    period_start: each.periodStart,
    period_end: each.periodEnd,
    created_at: each.createdAt,
  };
}
