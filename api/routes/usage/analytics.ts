import { z } from 'zod';
import { readCosts, readUsageByDay, readUsageGroups, readUsageTotals } from '../../../db/repositories/usage-reports.ts';
import { countSessions, sessionsByDay } from '../../../db/repositories/usage-sessions.ts';
import { resourceTypes, usageTypeNames, usageTypes } from '../../../domain/usage-types.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { accountQuery } from '../../schemas/account-filter.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
import { givenId, optionalQuery } from '../../schemas/fields.ts';
import { windowOf, windowQuery } from '../../schemas/usage-window.ts';
import {
  groupQuery,
  groupsFields,
  presentGroups,
  presentPeriod,
  presentSummary,
  presentTotals,
  summarySchema,
  timePeriodSchema,
  totalsFields,
} from './usage-schema.ts';

const query = z.object({
  ...windowQuery,
  ...accountQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  ...groupQuery,
});

const day = () => z.string().describe('A day (UTC), such as 2026-05-04');

const chartsSchema = z.object({
  sessions_over_time: z
    .array(z.object({ date: day(), sessions: z.int().min(0).describe('That began on this day') }))
    .describe('Days without any are left out'),
  resource_utilization: z
    .array(z.object({ date: day(), ...totalsFields }))
    .describe('Days without any use are left out'),
  cost_breakdown: z
    .array(
      z.object({
        usage_type: z.enum(usageTypeNames),
        resource_type: z.enum(resourceTypes),
        cost: z.number().min(0),
        percentage: z.number().min(0).max(100),
      }),
    )
    .describe('What costs most first'),
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
      summary: 'What was used in a period, by day and by what it cost',
      querystring: query,
      response: {
        200: envelope(
          z.object({ summary: summarySchema, charts: chartsSchema, time_period: timePeriodSchema, ...groupsFields }),
          'What was used',
        ),
        ...failures('invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId, group_by: groupBy } = request.query;
      const now = new Date();
      const window = windowOf(request.query, now);
      const of = { scope: scopeOf(request), projectId };
      const { em } = deps.orm;
      const [totals, counts, groups] = await Promise.all([
        readUsageTotals(em, of, window, now),
        countSessions(em, of, window, now),
        groupBy ? readUsageGroups(em, of, window, groupBy, now) : null,
      ]);
      const [sessions, days, costs] = await Promise.all([
        sessionsByDay(em, of, window),
        readUsageByDay(em, of, window, now),
        readCosts(em, of, window, now),
      ]);
      return success({
        summary: presentSummary(totals, counts),
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
        time_period: presentPeriod(window),
        ...presentGroups(groups),
      });
    },
  });
}
