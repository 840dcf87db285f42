import { z } from 'zod';
import { readUsageGroups, readUsageTotals } from '../../../db/repositories/usage-reports.ts';
import { countSessions } from '../../../db/repositories/usage-sessions.ts';
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
  summarySchema,
  timePeriodSchema,
} from './usage-schema.ts';

const query = z.object({
  ...windowQuery,
  ...accountQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  ...groupQuery,
});

/** `GET /v1/usage/summary`. */
export function getUsageSummary(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/summary',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getUsageSummary',
      tags: ['Usage'],
      summary: 'Sum up what was used in a period, to this moment',
      querystring: query,
      response: {
        200: envelope(
          z.object({ summary: summarySchema, time_period: timePeriodSchema, ...groupsFields }),
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
      return success({
        summary: presentSummary(totals, counts),
        time_period: presentPeriod(window),
        ...presentGroups(groups),
      });
    },
  });
}
