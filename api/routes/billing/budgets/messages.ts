import { z } from 'zod';
import { type BudgetMessage, listBudgetMessages as readMessages } from '../../../../db/billing/budget-messages.ts';
import { thresholdTypes } from '../../../../domain/billing/budget.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import type { UserId } from '../../../../domain/ids.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQueryOf } from '../../../schemas/lists.ts';
import { amount, currency } from '../../../schemas/money.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';

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
      querystring: z.object({ ...pagingQueryOf(20), ...accountQuery }),
      response: {
        200: envelope(z.object({ messages: z.array(message), pagination: paginationSchema }), 'A page of messages'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 20);
      const { messages, total } = await readMessages(deps.orm.em.fork(), scopeOf(request), listing);
      const { userId } = callerOf(request);
      return success({
        messages: messages.map((each) => present(each, userId)),
        pagination: paginationOf(listing, total),
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
