import { z } from 'zod';
import { listSubscriptionChanges } from '../../../../db/billing/plan-changes.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { amount } from '../../../schemas/money.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';

const changeSchema = z
  .object({
    change_id: z.string(),
    account_id: z.string(),
    subscription_id: z.string(),
    old_plan_name: z.string(),
    new_plan_name: z.string(),
    change_reason: z.enum(['upgraded', 'downgraded']),
    old_period_start: time(),
    old_period_end: time(),
    new_period_start: time(),
    new_period_end: time(),
    prorated_refund_amount: amount().describe('Credited for the unused part of the old plan'),
    old_plan_price: amount(),
    new_plan_price: amount(),
    invoice_id: z.string().nullable(),
    changed_at: time(),
  })
  .meta({ id: 'SubscriptionChange' });

/** `GET /v1/user-management/account/subscription/history`: the changes of the plan that took effect. */
export function listSubscriptionHistory(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/account/subscription/history',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listSubscriptionHistory',
      tags: ['Users'],
      summary: 'List the changes of the plan, newest first',
      description:
        'Lists changes that took effect, with the periods and prices before and after. Planned changes and ' +
        'changes whose charge failed are not listed.',
      querystring: z.object({ ...pagingQuery, ...accountQuery }),
      response: {
        200: envelope(z.object({ history: z.array(changeSchema), pagination: paginationSchema }), 'A page of changes'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const { changes, total } = await listSubscriptionChanges(deps.orm.em.fork(), scopeOf(request), listing);
      const history = changes.map((change) => ({
        change_id: change.changeId,
        account_id: change.accountId,
        subscription_id: change.subscriptionId,
        old_plan_name: change.oldPlan.planName,
        new_plan_name: change.newPlan.planName,
        change_reason: change.reason,
        old_period_start: change.oldPeriod.start,
        old_period_end: change.oldPeriod.end,
        new_period_start: change.newPeriod.start,
        new_period_end: change.newPeriod.end,
        prorated_refund_amount: toJsonNumber(change.proratedRefund),
        old_plan_price: toJsonNumber(change.oldPlan.priceAmount),
        new_plan_price: toJsonNumber(change.newPlan.priceAmount),
        invoice_id: change.invoiceId,
        changed_at: change.changedAt,
      }));
      return success({ history, pagination: paginationOf(listing, total) });
    },
  });
}
