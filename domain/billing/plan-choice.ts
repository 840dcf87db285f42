import type { Plan } from '../plans.ts';
import { compare } from './money.ts';

/**
 * What the choice of a plan means.
 * - `keep`: the present plan; a change that was planned is cancelled
 * - `now`: dearer, or as dear: it holds at once, for its price until the period ends
 * - `later`: cheaper, or with periods of another length: it holds when the period ends
 */
type PlanChoice = 'keep' | 'now' | 'later';

export function planChoice(present: Plan, chosen: Plan): PlanChoice {
  if (present.planName === chosen.planName) return 'keep';
  if (present.billingInterval !== chosen.billingInterval) return 'later';
  return compare(chosen.priceAmount, present.priceAmount) >= 0 ? 'now' : 'later';
}
