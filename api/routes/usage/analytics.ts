import { z } from 'zod';
import { readCosts, readUsageByDay } from '../../../db/usage/usage-reports.ts';
import { sessionsByDay } from '../../../db/usage/usage-sessions.ts';
import { resourceTypes, usageTypeNames, usageTypes } from '../../../domain/usage/types.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readReport, reportFields, reportQuery } from './usage-report.ts';
import { presentTotals, totalsFields } from './usage-schema.ts';

const day = () => z.string().describe('A day (UTC), such as 2026-05-04');

const chartsSchema = z.object({
  sessions_over_time: z
    .array(
      z.object({ date: day(), sessions: z.int().min(0).describe('The number of sessions that began on this day') }),
    )
    .describe('Days without sessions are left out'),
  resource_utilization: z.array(z.object({ date: day(), ...totalsFields })).describe('Days without usage are left out'),
  cost_breakdown: z
    .array(
      z.object({
        usage_type: z.enum(usageTypeNames),
        resource_type: z.enum(resourceTypes),
        cost: z.number().min(0),
        percentage: z.number().min(0).max(100),
      }),
    )
    .describe('Highest cost first'),
});

/** `GET /v1/usage/analytics`. */
export function getUsageAnalytics(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/analytics',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getUsageAnalytics',
      tags: ['Usage'],
      summary: 'Sum up the usage of a period, by day and by cost',
      description:
        'Returns the sums of `GET /v1/usage/summary`, with charts by day and by cost. Default: the last 30 ' +
        'days; at most ' +
        'of 366.',
      querystring: reportQuery,
      response: {
        200: envelope(z.object({ ...reportFields, charts: chartsSchema }), 'What was used'),
        ...failures('invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { em } = deps.orm;
      const { of, window, now, shown } = await readReport(em, scopeOf(request), request.query);
      const [sessions, days, costs] = await Promise.all([
        sessionsByDay(em, of, window),
        readUsageByDay(em, of, window, now),
        readCosts(em, of, window, now),
      ]);
      return success({
        ...shown,
        charts: {
          sessions_over_time: sessions,
          resource_utilization: days.map(({ date, totals: used }) => ({ date, ...presentTotals(used) })),
          cost_breakdown: costs.map(({ usageType, cost, percentage }) => ({
            usage_type: usageType,
            resource_type: usageTypes[usageType].resource,
            cost,
            percentage,
          })),
        },
      });
    },
  });
}
