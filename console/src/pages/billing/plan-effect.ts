import type { DataOf } from '../../api/client.ts';

export type Plan = DataOf<'listPlans'>['plans'][number];
export type Subscription = DataOf<'getSubscription'>['subscription'];

/**
 * What choosing a plan does on a platform that bills:
 * - `keep`: it is the present one; a planned change is cancelled
 * - `now`: it costs as much or more, and applies at once
 * - `later`: it is cheaper or has periods of another length, and applies when the period ends
 */
export function effectOf(present: Plan, chosen: Plan): 'keep' | 'now' | 'later' {
  if (present.plan_name === chosen.plan_name) return 'keep';
  if (present.billing_interval !== chosen.billing_interval) return 'later';
  return chosen.price_amount >= present.price_amount ? 'now' : 'later';
}

/** The cost of a change that applies at once. */
interface ChangeCost {
  /** For the chosen plan until the period ends. */
  charge: number;
  /** For the unused time of the present plan. */
  credit: number;
  tax: number;
  due: number;
}

/** About what a change costs now. The platform computes the exact amounts at the time of the change. */
export function costOfChange(
  { plan, tax_rate: taxRate, ...period }: Subscription,
  chosen: Plan,
  nowMs: number,
): ChangeCost {
  const [startMs, endMs] = [Date.parse(period.current_period_start), Date.parse(period.current_period_end)];
  const left = Math.min(Math.max((endMs - nowMs) / (endMs - startMs), 0), 1);
  const charge = chosen.price_amount * left;
  const credit = plan.price_amount * left;
  const tax = (charge - credit) * taxRate;
  return { charge, credit, tax, due: charge - credit + tax };
}
