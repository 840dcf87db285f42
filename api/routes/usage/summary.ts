import { z } from 'zod';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readReport, reportFields, reportQuery } from './usage-report.ts';

/** `GET /v1/usage/summary`. */
export function getUsageSummary(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/summary',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getUsageSummary',
      tags: ['Usage'],
      summary: 'Sum up the usage of a period',
      description:
        'Returns sessions, hours and costs, up to now. Default: the last 30 days; at most 366 days. `group_by` adds ' +
        'sums by project, user or a key of the metadata.',
      querystring: reportQuery,
      response: {
        200: envelope(z.object(reportFields), 'What was used'),
        ...failures('invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { shown } = await readReport(deps.orm.em, scopeOf(request), request.query);
      return success(shown);
    },
  });
}
