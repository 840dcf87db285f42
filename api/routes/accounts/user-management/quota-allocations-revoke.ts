import { changeAllocation, readAllocation } from '../../../../db/usage/quota-allocations.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { allocationPath, allocationSchema, presentAllocation } from '../../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

/** `POST /v1/user-management/quota-allocations/{allocation_id}/revoke`: the allocation no longer limits its user or account. */
export function revokeQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-allocations/:allocation_id/revoke',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'revokeQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Revoke a quota allocation',
      description: 'The allocation no longer limits its user or account. It stays in the list as `revoked`.',
      params: allocationPath,
      response: {
        200: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_not_active'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      await changeAllocation(em, scope, id, { status: 'revoked' });
      return success(presentAllocation(await readAllocation(em.fork(), scope, id)), 'The quota allocation is revoked');
    },
  });
}
