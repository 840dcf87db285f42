import { updateQuotaRequest as changeQuotaRequest, readQuotaRequest } from '../../../db/usage/quota-requests.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import {
  presentQuotaRequest,
  quotaOf,
  quotaRequestBody,
  quotaRequestPath,
  quotaRequestSchema,
} from '../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';

/** `PUT /v1/usage/quota-requests/{request_id}`: changes a pending request. Absent fields mean no limit. */
export function updateQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/usage/quota-requests/:request_id',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'updateQuotaRequest',
      tags: ['Quotas'],
      summary: 'Change a pending quota request',
      description: 'Replaces all values, while it is pending. Values that are left out are not limited.',
      params: quotaRequestPath,
      body: quotaRequestBody,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const { reason } = request.body;
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      await changeQuotaRequest(em, scope, id, { ...quotaOf(request.body), reason });
      const changed = presentQuotaRequest(await readQuotaRequest(em.fork(), scope, id));
      return success(changed, 'The quota request is changed');
    },
  });
}
