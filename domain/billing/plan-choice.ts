import { compare } from './money.ts';
import type { Plan } from './plans.ts';

/**
 * The effect of selecting a plan.
 * - `keep`: the current plan stays, and a planned change is cancelled
 * - `now`: a plan of the same or a higher price applies at once, for its price until the period ends
 * - `later`: a cheaper plan, or one with another period length, applies when the period ends
 */
type PlanChoice = 'keep' | 'now' | 'later';

export function planChoice(present: Plan, chosen: Plan): PlanChoice {
  if (present.planName === chosen.planName) return 'keep';
  if (present.billingInterval !== chosen.billingInterval) return 'later';
  return compare(chosen.priceAmount, present.priceAmount) >= 0 ? 'now' : 'later';
}
