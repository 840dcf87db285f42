import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { changePlan, findPlanChange, type PlanChange } from '../../../../db/billing/plan-changes.ts';
import { findSubscription, isCharged } from '../../../../db/billing/subscriptions.ts';
import { AppError, notFound } from '../../../../domain/errors.ts';
import type { PlanChangeId } from '../../../../domain/ids.ts';
import { isBilled } from '../../../../platform/config/billing.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { presentSubscription, subscriptionSchema } from './subscription-schema.ts';

/** How long a request waits for the charge. The charge continues after that. */
const waitMs = 20_000;
const lookMs = 200;

/** `POST /v1/user-management/account/subscription`: changes the plan. */
export function changeSubscription(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/account/subscription',
    config: { access: accountRoot('account'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'changeSubscription',
      tags: ['Users'],
      summary: 'Change the plan: to a more expensive one immediately, to a cheaper one when the period ends',
      description:
        'A more expensive plan is charged for the rest of the period, minus the unused part of the current ' +
        'plan: from the balance, then ' +
        'from the default card. If the charge fails, everything stays as it was. The name of the present plan cancels a change ' +
        'that was planned.',
      headers: idempotencyHeaders,
      body: z.object({ plan_name: z.string().min(1).max(100) }),
      response: {
        200: envelope(
          z.object({
            subscription: subscriptionSchema,
            change_status: z
              .enum(['done', 'running'])
              .describe('`running`: the charge has not ended; check again later'),
          }),
          'The subscription',
        ),
        ...failures(
          ofMutations,
          ofIdempotency,
          ...(['root_required', 'not_found', 'unknown_plan', 'payment_required', 'payment_failed'] as const),
          ...(['subscription_past_due', 'plan_change_in_progress'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { accountId } = callerOf(request);
      const billed = isBilled(deps.settings) && (await isCharged(deps.orm.em, accountId));
      const wanted = { accountId, planName: request.body.plan_name, at: new Date(), billed };
      const changeId = await changePlan(deps.orm.em, deps.plans, wanted);
      const change = changeId === null ? null : await outcomeOf(deps, changeId);
      if (change?.status === 'failed') {
        const why = change.failureReason ? ` (${change.failureReason})` : '';
        throw new AppError('payment_failed', `The charge failed${why}; the plan did not change`);
      }
      const subscription = await findSubscription(deps.orm.em, accountId);
      if (!subscription) throw notFound('Subscription');
      const status = change?.status === 'running' ? ('running' as const) : ('done' as const);
      return success({ subscription: presentSubscription(subscription), change_status: status });
    },
  });
}

/** The ended change, or its current state when the request has waited long enough. */
async function outcomeOf({ orm }: ApiDependencies, changeId: PlanChangeId): Promise<PlanChange> {
  for (const endsAt = Date.now() + waitMs; ; ) {
    const change = await findPlanChange(orm.em, changeId);
    if (!change) throw notFound('Change of the plan');
    if (change.status !== 'running' || Date.now() >= endsAt) return change;
    await sleep(lookMs);
  }
}
