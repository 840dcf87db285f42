import { z } from 'zod';
import { listQuotaRequests as readQuotaRequests } from '../../../db/usage/quota-requests.ts';
import { quotaRequestStatuses } from '../../../domain/usage/quotas.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalQuery } from '../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../schemas/lists.ts';
import { presentQuotaRequest, quotaRequestSchema } from '../../schemas/quota.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';

const query = z.object({ ...pagingQuery, ...accountQuery, status: optionalQuery(z.enum(quotaRequestStatuses)) });

/** `GET /v1/usage/quota-requests`. */
export function listQuotaRequests(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/quota-requests',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listQuotaRequests',
      tags: ['Quotas'],
      summary: 'List your quota requests, newest first',
      description: 'Users see their own requests, root users those of the account.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ requests: z.array(quotaRequestSchema), pagination: paginationSchema }),
          'A page of requests',
        ),
        ...failures(ofPaging, 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const em = deps.orm.em.fork();
      const { requests, total } = await readQuotaRequests(em, scopeOf(request), request.query.status, listing);
      return success({ requests: requests.map(presentQuotaRequest), pagination: paginationOf(listing, total) });
    },
  });
}
