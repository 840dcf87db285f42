import { z } from 'zod';
import { listAllocations } from '../../../../db/usage/quota-allocations.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { queryFlag } from '../../../schemas/fields.ts';
import { accountQuery, listingOf, paginationOf, paginationSchema, pagingQuery } from '../../../schemas/lists.ts';
import { allocationSchema, presentAllocation } from '../../../schemas/quota.ts';
import { envelope, failures, ofPaging, success } from '../../../schemas/replies.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  include_inactive: queryFlag().describe('Also list superseded and revoked ones'),
});

/** `GET /v1/user-management/quota-allocations`: the allocations of the account and of all its users. */
export function listQuotaAllocations(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/quota-allocations',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listQuotaAllocations',
      tags: ['Quotas'],
      summary: 'List the quota allocations of the account, newest first',
      description:
        'Lists active ones of the account and of all its users; with `include_inactive=true`, also superseded and ' +
        'revoked ones.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ allocations: z.array(allocationSchema), pagination: paginationSchema }),
          'A page of allocations',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = listingOf(request.query, 50);
      const withInactive = request.query.include_inactive ?? false;
      const em = deps.orm.em.fork();
      const { allocations, total } = await listAllocations(em, scopeOf(request), withInactive, listing);
      return success({ allocations: allocations.map(presentAllocation), pagination: paginationOf(listing, total) });
    },
  });
}
