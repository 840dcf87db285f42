import { z } from 'zod';
import { scopeTransaction } from '../../../../db/core/scope.ts';
import { allocateQuota, findAllocation, readAllocation } from '../../../../db/usage/quota-allocations.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { givenId, optionalBody, optionalNonZero } from '../../../schemas/fields.ts';
import { allocationSchema, presentAllocation, quotaFields, quotaOf } from '../../../schemas/quota.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';

const body = optionalBody(
  z.object({
    user_id: optionalNonZero(givenId('user', z.string().max(64))).describe(
      'A user of the account; without it, the quota limits the account, all its users together',
    ),
    ...quotaFields,
  }),
);

/** `POST /v1/user-management/quota-allocations`. The previous allocation of the user or account becomes `superseded`. */
export function createQuotaAllocation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/quota-allocations',
    config: { access: accountRoot('account'), idempotency: { makes: 'quotaAllocation' } },
    schema: {
      operationId: 'createQuotaAllocation',
      tags: ['Quotas'],
      summary: 'Allocate a quota to a user, or to the account',
      description:
        'The previous allocation of the same user, or of the account, becomes `superseded`. Null means no limit; the ' +
        'limits of the plan always apply.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(allocationSchema, 'The allocation'),
        ...failures(ofMutations, ofIdempotency, 'root_required', 'not_found'),
      },
    },
    handler: async (request, reply) => {
      const { userId: allocatedByUserId, accountId } = callerOf(request);
      const scope = scopeOf(request);
      const em = deps.orm.em.fork();
      const to = { accountId, userId: request.body.user_id ?? null };
      const quota = quotaOf(request.body);
      const made = await createOnce(request, 'quotaAllocation', {
        find: (id) => findAllocation(em.fork(), scope, id),
        create: async (allocationId) => {
          const allocation = { allocationId, allocatedByUserId, quota };
          await scopeTransaction(em, scope, (tx) => allocateQuota(tx, to, allocation));
          return readAllocation(em.fork(), scope, allocationId);
        },
      });
      return reply.code(201).send(success(presentAllocation(made)));
    },
  });
}
