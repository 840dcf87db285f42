import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { isZero, readAmount } from '../../domain/billing/money.ts';
import type { Plan } from '../../domain/billing/plans.ts';

const money = z.string().regex(/^\d{1,10}(\.\d{1,3})?$/, 'a decimal in text such as "49.00"');
const count = z.number().int().positive();

/** Far above every disk, and within what the kernel accepts. */
const rate = count.max(10_000_000);

const planSchema = z
  .strictObject({
    planName: z.string().regex(/^[a-z][a-z0-9_-]*$/),
    displayName: z.string(),
    description: z.string(),
    priceAmount: money,
    currency: z.string().regex(/^[A-Z]{3}$/, 'an ISO 4217 code such as "USD"'),
    billingInterval: z.enum(['month', 'year']),
    isFree: z.boolean(),
    maxConcurrentSandboxes: count,
    maxCpuCoresPerSandbox: count,
    maxMemoryGbPerSandbox: count,
    maxStorageGbPerSandbox: count,
    maxDiskRatesPerSandbox: z
      .strictObject({ readMbPerSecond: rate, writeMbPerSecond: rate, readsPerSecond: rate, writesPerSecond: rate })
      .optional(),
    maxSandboxTimeoutSeconds: count,
    persistenceDays: count,
    maxActiveApiKeys: count,
    maxProjects: count,
    maxTemplates: count,
    maxTemplateStorageGb: count,
  })
  .refine(({ priceAmount, currency }) => readAmount(priceAmount, currency) !== null, {
    path: ['priceAmount'],
    message: 'has more digits than the currency, or is too large',
  })
  .refine(({ isFree, priceAmount }) => !isFree || isZero(priceAmount), {
    path: ['priceAmount'],
    message: 'must be zero where isFree is true',
  })
  .transform((plan) => ({
    ...plan,
    priceAmount: readAmount(plan.priceAmount, plan.currency)!,
  })) satisfies z.ZodType<Plan>;

const plansSchema = z
  .array(planSchema)
  .min(1)
  .refine((plans) => new Set(plans.map(({ planName }) => planName)).size === plans.length, 'two plans have one name')
  // The rest of one plan is credited to another, and one balance pays for both.
  .refine((plans) => new Set(plans.map(({ currency }) => currency)).size === 1, 'all plans need the same currency');

/** The plans of this platform, by name, in the order of the file. */
export interface PlanCatalog {
  all: Plan[];
  /** The currency of all plans. */
  currency: string;
  /** @throws when an account has a plan that is not in the file, which is an operator's mistake */
  get(planName: string): Plan;
}

/**
 * Reads the plans.
 * @param file JSON in the form of `db/billing/plans.json`, which is also the default
 */
export function loadPlans(file = path.join(import.meta.dirname, 'plans.json')): PlanCatalog {
  const all = plansSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  const byName = new Map(all.map((plan) => [plan.planName, plan]));
  return {
    all,
    currency: all[0]!.currency,
    get(planName) {
      const plan = byName.get(planName);
      if (!plan) throw new Error(`${file} has no plan named ${planName}`);
      return plan;
    },
  };
}
