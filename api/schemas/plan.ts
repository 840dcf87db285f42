import { z } from 'zod';
import { toJsonNumber } from '../../domain/billing/money.ts';
import type { Plan } from '../../domain/billing/plans.ts';

/** A plan and its limits. */
export const planSchema = z
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

export function presentPlan(plan: Plan): z.output<typeof planSchema> {
  return {
    plan_name: plan.planName,
    display_name: plan.displayName,
    description: plan.description,
    price_amount: toJsonNumber(plan.priceAmount),
    currency: plan.currency,
    billing_interval: plan.billingInterval,
    is_free: plan.isFree,
    max_concurrent_sandboxes: plan.maxConcurrentSandboxes,
    max_cpu_cores_per_sandbox: plan.maxCpuCoresPerSandbox,
    max_memory_gb_per_sandbox: plan.maxMemoryGbPerSandbox,
    max_storage_gb_per_sandbox: plan.maxStorageGbPerSandbox,
    max_sandbox_timeout_seconds: plan.maxSandboxTimeoutSeconds,
    persistence_days: plan.persistenceDays,
  };
}
