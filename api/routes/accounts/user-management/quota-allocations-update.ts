import { z } from 'zod';
import { changeAllocation, readAllocation } from '../../../../db/usage/quota-allocations.ts';
import { accountRoot, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optionalBody } from '../../../schemas/fields.ts';
import {
  allocationPath,
  allocationSchema,
  presentAllocation,
  quotaChangeOf,
  quotaFields,
} from '../../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

/** `PUT /v1/user-management/quota-allocations/{allocation_id}`. Absent fields keep their values; null removes a limit. */
export function updateQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/quota-allocations/:allocation_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'updateQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Change a quota allocation',
      description:
        'Values that are left out, or 0, do not change; null removes a limit, and so does 0 for `concurrent_sandboxes`. Only an active allocation can be changed.',
      params: allocationPath,
      body: optionalBody(z.object(quotaFields)),
      response: {
        200: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_not_active'),
      },
    },
    handler: async (request) => {
      const { allocation_id: id } = request.params;
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      await changeAllocation(em, scope, id, quotaChangeOf(request.body));
      return success(presentAllocation(await readAllocation(em.fork(), scope, id)), 'The quota allocation is changed');
    },
  });
}
