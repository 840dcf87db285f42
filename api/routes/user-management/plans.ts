import { z } from 'zod';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';

/** A plan and its limits. */
const planSchema = z
  .object({
    plan_name: z.string(),
    display_name: z.string(),
    description: z.string(),
    price_amount: z.number(),
    currency: z.string(),
    billing_interval: z.string(),
    is_free: z.boolean(),
    max_concurrent_sandboxes: z.int(),
    max_cpu_cores_per_sandbox: z.int(),
    max_memory_gb_per_sandbox: z.int(),
    max_storage_gb_per_sandbox: z.int(),
    max_sandbox_timeout_seconds: z.int(),
    persistence_days: z.int(),
  })
  .meta({ id: 'Plan' });

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
      response: { 200: envelope(z.object({ plans: z.array(planSchema) }), 'The plans'), ...failures() },
    },
    handler: async () =>
      success({
        plans: deps.plans.all.map((plan) => ({
          plan_name: plan.planName,
          display_name: plan.displayName,
          description: plan.description,
          price_amount: Number(plan.priceAmount),
          currency: plan.currency,
          billing_interval: plan.billingInterval,
          is_free: plan.isFree,
          max_concurrent_sandboxes: plan.maxConcurrentSandboxes,
          max_cpu_cores_per_sandbox: plan.maxCpuCoresPerSandbox,
          max_memory_gb_per_sandbox: plan.maxMemoryGbPerSandbox,
          max_storage_gb_per_sandbox: plan.maxStorageGbPerSandbox,
          max_sandbox_timeout_seconds: plan.maxSandboxTimeoutSeconds,
          persistence_days: plan.persistenceDays,
        })),
      }),
  });
}
