import { readQuotaRequest, withdrawQuotaRequest } from '../../../db/usage/quota-requests.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { presentQuotaRequest, quotaRequestPath, quotaRequestSchema } from '../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';

/** `DELETE /v1/usage/quota-requests/{request_id}`: withdraws a pending request. */
export function deleteQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/usage/quota-requests/:request_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'withdrawQuotaRequest',
      tags: ['Quotas'],
      summary: 'Withdraw a pending quota request',
      description: 'It stays in the list as `withdrawn`.',
      params: quotaRequestPath,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      await withdrawQuotaRequest(em, scope, id);
      const withdrawn = presentQuotaRequest(await readQuotaRequest(em.fork(), scope, id));
      return success(withdrawn, 'The quota request is withdrawn');
    },
  });
}
