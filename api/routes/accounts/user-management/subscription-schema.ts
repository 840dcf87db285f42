import { z } from 'zod';
import type { Subscription } from '../../../../db/billing/subscriptions.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { time } from '../../../schemas/fields.ts';
import { planSchema, presentPlan } from '../../../schemas/plan.ts';

export const subscriptionSchema = z
  .object({
    subscription_id: z.string(),
    account_id: z.string(),
    status: z.enum(['active', 'past_due', 'canceled']),
    // The plan with its terms at the time of purchase.
    plan: planSchema,
    current_period_start: time(),
    current_period_end: time(),
    planned_plan_name: z.string().nullable().describe('Takes effect when the period ends; null: the plan continues'),
    tax_rate: z.number(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'Subscription' });

export function presentSubscription(subscription: Subscription): z.output<typeof subscriptionSchema> {
  return {
    subscription_id: subscription.subscriptionId,
    account_id: subscription.accountId,
    status: subscription.status,
    plan: presentPlan(subscription.plan),
    current_period_start: subscription.periodStart,
    current_period_end: subscription.periodEnd,
    planned_plan_name: subscription.plannedPlanName,
    tax_rate: toJsonNumber(subscription.taxRate),
    created_at: subscription.createdAt,
    updated_at: subscription.updatedAt,
  };
}
