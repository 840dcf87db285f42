import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import type { Plan } from '../domain/plans.ts';

const money = z.string().regex(/^\d+\.\d{2}$/, 'a decimal in text such as "49.00"');
const count = z.number().int().positive();

const planSchema = z.strictObject({
  planName: z.string().regex(/^[a-z][a-z0-9_-]*$/),
  displayName: z.string(),
  description: z.string(),
  priceAmount: money,
  currency: z.string().length(3),
  billingInterval: z.string(),
  isFree: z.boolean(),
  maxConcurrentSandboxes: count,
  maxCpuCoresPerSandbox: count,
  maxMemoryGbPerSandbox: count,
  maxStorageGbPerSandbox: count,
  maxSandboxTimeoutSeconds: count,
  persistenceDays: count,
  maxActiveApiKeys: count,
  // Files made before these limits were there have no such fields.
  maxProjects: count.default(1000),
  maxTemplates: count.default(1000),
  maxTemplateStorageGb: count.default(100),
}) satisfies z.ZodType<Plan>;

/** The plans of this platform, by name, in the order of the file. */
export interface PlanCatalog {
  all: Plan[];
  /** @throws when an account names a plan that the file does not have: an operator's mistake. */
  get(planName: string): Plan;
}

/**
 * Reads the plans.
 * @param file JSON in the form of `db/seeds/plans.json`, which is also the default
 */
export function loadPlans(file = path.join(import.meta.dirname, 'seeds/plans.json')): PlanCatalog {
  const all = z
    .array(planSchema)
    .min(1)
    .parse(JSON.parse(readFileSync(file, 'utf8')));
  const byName = new Map(all.map((plan) => [plan.planName, plan]));
  return {
    all,
    get(planName) {
      const plan = byName.get(planName);
      if (!plan) throw new Error(`${file} has no plan named ${planName}`);
      return plan;
    },
  };
}
