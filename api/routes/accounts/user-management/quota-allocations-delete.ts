import { z } from 'zod';
import { deleteAllocation } from '../../../../db/usage/quota-allocations.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { allocationPath } from '../../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

/** `DELETE /v1/user-management/quota-allocations/{allocation_id}`, in any status. */
export function deleteQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/user-management/quota-allocations/:allocation_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deleteQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Delete a quota allocation',
      description: 'Works in any status. A deleted allocation no longer limits its user or account.',
      params: allocationPath,
      response: {
        200: envelope(z.object({ allocation_id: z.string(), deleted: z.literal(true) }), 'It is deleted'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      await deleteAllocation(deps.orm.em.fork(), scopeOf(request), id);
      return success({ allocation_id: id, deleted: true as const }, 'The quota allocation is deleted');
    },
  });
}
