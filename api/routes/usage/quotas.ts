import { z } from 'zod';
import { findActiveAllocation } from '../../../db/repositories/quota-allocations.ts';
import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
import { allocationSchema, presentAllocation } from '../../schemas/quota.ts';

/** `GET /v1/usage/quotas`. */
export function getQuota(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/quotas',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getQuota',
      tags: ['Quotas'],
      summary: 'Read your quota',
      response: {
        200: envelope(
          z.object({ quotas: allocationSchema.nullable() }),
          'The allocation that counts; null: only the plan limits you',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const allocation = await findActiveAllocation(deps.orm.em.fork(), callerOf(request).userId);
      return success({ quotas: allocation && presentAllocation(allocation) });
    },
  });
}
