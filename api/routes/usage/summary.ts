import { z } from 'zod';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
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
      summary: 'Sum up what was used in a period, to this moment',
      description:
        'Sessions, hours and costs, to this moment. By default of the last 30 days, at most of 366. `group_by` adds ' +
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
