import { z } from 'zod';
import { projected, readRunningPeriod } from '../../../../db/billing/billing-reports.ts';
import { readCosts, readUsageByDay } from '../../../../db/usage/usage-reports.ts';
import { countSessions } from '../../../../db/usage/usage-sessions.ts';
import { sumOf, toJsonNumber } from '../../../../domain/billing/money.ts';
import { notFound } from '../../../../domain/errors.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { feeFields, feeOf, linesOf, presentFee, usageCostOf } from '../../../schemas/subscription-fee.ts';

const snapshot = z
  .object({
    current_period: z.object({ start: time(), end: time() }),
    currency: currency(),
    current_cost: amount().describe('Plan and usage until now, before tax'),
    projected_cost: amount().describe('Estimate for the end of the period, if usage continues at the same rate'),
    active_sessions: z.int().min(0),
    completed_sessions: z.int().min(0),
    subscription_fee: z.object({ plan_name: z.string(), ...feeFields }),
    cost_breakdown: z
      .array(z.object({ resource_type: z.string(), cost: amount(), percentage: z.number() }))
      .describe('Usage at its prices; a free plan includes it'),
    daily_trend: z
      .array(z.object({ date: z.string(), cost: amount() }))
      .describe('Usage of each day (UTC) that has any'),
  })
  .meta({ id: 'BillingSnapshot' });

/** `GET /v1/billing/current`: the cost of the running period so far. */
export function getCurrentBilling(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/current',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getCurrentBilling',
      tags: ['Billing'],
      summary: 'Get the cost of the current period until now',
      description:
        'The fee of the plan, usage by kind and by day, and an estimate for the whole period if usage ' +
        'continues at the same rate. Before tax; ' +
        'nothing is charged until the period has ended, except a change to a more expensive plan.',
      response: { 200: envelope(snapshot, 'The running period'), ...failures('root_required', 'not_found') },
    },
    handler: async (request) => {
      const { accountId } = callerOf(request);
      const { em } = deps.orm;
      const now = new Date();
      const running = await readRunningPeriod(em, accountId, now);
      if (!running) throw notFound('Subscription');
      const { subscription, start, end, lines, changes } = running;
      const { currency: code, planName } = subscription.plan;
      const of = { scope: { rows: 'account', accountId } } as const;
      const window = { start, end: now };
      const [sessions, costs, days] = await Promise.all([
        countSessions(em, of, window, now),
        readCosts(em, of, window, now),
        readUsageByDay(em, of, window, now),
      ]);
      const fee = feeOf([...lines, ...linesOf(changes)], code);
      const used = usageCostOf(lines, code);
      return success({
        current_period: { start, end },
        currency: code,
        current_cost: toJsonNumber(sumOf([fee.final, used], code)),
        projected_cost: toJsonNumber(sumOf([fee.final, projected(used, running, now)], code)),
        active_sessions: sessions.active,
        completed_sessions: sessions.completed,
        subscription_fee: { plan_name: planName, ...presentFee(fee) },
        cost_breakdown: costs.map(({ usageType, cost, percentage }) => ({
          resource_type: usageType,
          cost,
          percentage,
        })),
        daily_trend: days.map(({ date, totals }) => ({ date, cost: totals.cost })),
      });
    },
  });
}
