import { z } from 'zod';
import { listQuotaRequests as readQuotaRequests } from '../../../../db/usage/quota-requests.ts';
import { quotaRequestStatuses } from '../../../../domain/usage/quotas.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optionalQuery } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { presentQuotaRequest, quotaRequestSchema } from '../../../schemas/quota.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';

const query = z.object({ ...pagingQuery, ...accountQuery, status: optionalQuery(z.enum(quotaRequestStatuses)) });

/** `GET /v1/user-management/quota-requests`: the requests of all users of the account. */
export function listQuotaRequestsOfAccount(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/quota-requests',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listQuotaRequestsOfAccount',
      tags: ['Quotas'],
      summary: 'List the quota requests of the account, newest first',
      description: 'Lists requests of all users of the account. `status` filters the list.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ requests: z.array(quotaRequestSchema), pagination: paginationSchema }),
          'A page of requests',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
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
