import { z } from 'zod';
import { readCosts, readUsageByDay, readUsageTotals } from '../../../../db/usage/usage-reports.ts';
import { countSessions } from '../../../../db/usage/usage-sessions.ts';
import { accountRoot, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { amount } from '../../../schemas/money.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { windowOf, windowQuery } from '../../../schemas/usage-window.ts';

const history = z
  .object({
    period: z.object({ start: time(), end: time() }),
    total_cost: amount().describe('Usage at its prices, to a millionth; a free plan includes it'),
    sessions: z.object({
      total: z.int().min(0),
      active: z.int().min(0),
      completed: z.int().min(0),
      failed: z.int().min(0),
    }),
    breakdown: z.array(z.object({ resource_type: z.string(), cost: amount(), percentage: z.number() })),
    daily_costs: z.array(z.object({ date: z.string(), cost: amount() })).describe('Days (UTC) with usage'),
  })
  .meta({ id: 'BillingHistory' });

/** `GET /v1/billing/history`: the cost of usage in a window of time. */
export function getBillingHistory(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/history',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getBillingHistory',
      tags: ['Billing'],
      summary: 'Get the cost of usage in a time range',
      description:
        'By kind and by day, at the prices of usage: a free plan includes it, and the fee of a plan is not in it. By default the ' +
        'last 30 days.',
      querystring: z.object(windowQuery),
      response: { 200: envelope(history, 'The costs'), ...failures('root_required', 'invalid_date_range') },
    },
    handler: async (request) => {
      const { accountId } = callerOf(request);
      const { em } = deps.orm;
      const now = new Date();
      const window = windowOf(request.query, now);
      const of = { scope: { rows: 'account', accountId } } as const;
      const [totals, counts, costs, days] = await Promise.all([
        readUsageTotals(em, of, window, now),
        countSessions(em, of, window, now),
        readCosts(em, of, window, now),
        readUsageByDay(em, of, window, now),
      ]);
      const { total, active, completed, failed } = counts;
      return success({
        period: window,
        total_cost: totals.cost,
        sessions: { total, active, completed, failed },
        breakdown: costs.map(({ usageType, cost, percentage }) => ({ resource_type: usageType, cost, percentage })),
        daily_costs: days.map(({ date, totals: used }) => ({ date, cost: used.cost })),
      });
    },
  });
}
