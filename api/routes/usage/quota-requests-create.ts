import {
  createQuotaRequest as askForQuota,
  findQuotaRequest,
  readQuotaRequest,
} from '../../../db/usage/quota-requests.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { presentQuotaRequest, quotaOf, quotaRequestBody, quotaRequestSchema } from '../../schemas/quota.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';

/** `POST /v1/usage/quota-requests`. The root users of the account are notified. */
export function createQuotaRequest(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/usage/quota-requests',
    config: { access: anyUser('own'), idempotency: { makes: 'quotaRequest' } },
    schema: {
      operationId: 'createQuotaRequest',
      tags: ['Quotas'],
      summary: 'Request a quota',
      description:
        'The root users of the account are notified. Values that are left out are not limited. One request can be ' +
        'pending at a time.',
      headers: idempotencyHeaders,
      body: quotaRequestBody,
      response: {
        201: envelope(quotaRequestSchema, 'The request'),
        ...failures(ofMutations, ofIdempotency, 'quota_request_pending'),
      },
    },
    handler: async (request, reply) => {
      const { reason } = request.body;
      const [caller, scope, em] = [callerOf(request), scopeOf(request), deps.orm.em.fork()];
      const made = await createOnce(request, 'quotaRequest', {
        find: (id) => findQuotaRequest(em.fork(), scope, id),
        create: async (id) => {
          await askForQuota(em, caller, id, { ...quotaOf(request.body), reason });
          return readQuotaRequest(em.fork(), scope, id);
        },
      });
      return reply.code(201).send(success(presentQuotaRequest(made)));
    },
  });
}
