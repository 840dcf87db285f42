import { z } from 'zod';
import { listImportJobs as findImportJobs } from '../../../../db/templates/import-jobs.ts';
import { importStatuses } from '../../../../domain/templates/import-jobs.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenId, optionalQuery } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';
import { importJobItemSchema, presentImportJobItem } from './import-job-schema.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  status: optionalQuery(z.enum(['ongoing', ...importStatuses])).describe('Default ongoing: pending and running jobs'),
  template_id: optionalQuery(givenId('template', z.string().max(64))),
});

/** `GET /v1/import-jobs`. */
export function listImportJobs(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/import-jobs',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listImportJobs',
      tags: ['Imports'],
      summary: 'List import jobs, newest first',
      description:
        'Without `status`, lists pending and running jobs. Users see their own jobs, root users those of the account.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ jobs: z.array(importJobItemSchema), pagination: paginationSchema }),
          'A page of import jobs',
        ),
        ...failures(ofPaging, 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const filter = { status: request.query.status ?? ('ongoing' as const), templateId: request.query.template_id };
      const { jobs, total } = await findImportJobs(deps.orm.em.fork(), scopeOf(request), filter, listing);
      return success({ jobs: jobs.map(presentImportJobItem), pagination: paginationOf(listing, total) });
    },
  });
}
