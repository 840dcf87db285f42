import { z } from 'zod';
import { readQuotaRequest, reviewQuotaRequest as review } from '../../../../db/usage/quota-requests.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optional } from '../../../schemas/fields.ts';
import { presentQuotaRequest, quotaRequestPath, quotaRequestSchema } from '../../../schemas/quota.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';

const body = z.object({ action: z.enum(['approve', 'deny']), review_notes: optional(z.string().max(2000)) });

/** `POST /v1/user-management/quota-requests/{request_id}/review`. An approval allocates the requested quota. */
export function reviewQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-requests/:request_id/review',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'reviewQuotaRequest',
      tags: ['Quotas'],
      summary: 'Approve or deny a quota request',
      description: 'An approval allocates the requested values. The user is notified in both cases.',
      params: quotaRequestPath,
      body,
      response: {
        200: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, 'root_required', 'not_found', 'quota_request_not_pending'),
      },
    },
    handler: async (request) => {
      const { request_id: id } = request.params;
      const { action, review_notes: notes } = request.body;
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      const by = callerOf(request).userId;
      await review(em, scope, id, { by, approve: action === 'approve', notes: notes ?? null });
      const reviewed = await readQuotaRequest(em.fork(), scope, id);
      return success(presentQuotaRequest(reviewed), `The quota request is ${reviewed.status}`);
    },
  });
}
