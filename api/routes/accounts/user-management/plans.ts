import { z } from 'zod';
import { anyUser } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { planSchema, presentPlan } from '../../../schemas/plan.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';

/** `GET /v1/user-management/plans`. */
export function listPlans(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/plans',
    config: { access: anyUser('none') },
    schema: {
      operationId: 'listPlans',
      tags: ['Users'],
      summary: 'List the plans and their limits',
      description: 'The price of a period and the limits of each plan.',
      response: { 200: envelope(z.object({ plans: z.array(planSchema) }), 'The plans'), ...failures() },
    },
    handler: async () => success({ plans: deps.plans.all.map(presentPlan) }),
  });
}
