import { type Amount, computeShare, difference } from './money.ts';
import type { Period } from './periods.ts';

/** The cost of a change to a more expensive plan for the rest of a period. */
export interface Proration {
  /** The unused part of the old plan's price. */
  credit: Amount;
  /** The price of the new plan until the period ends. */
  charge: Amount;
  /** `charge − credit`, before tax. */
  due: Amount;
}

/**
 * Prorates by the millisecond. Both prices are rounded separately, because both are lines of an invoice. Rounding keeps
 * their order, so the due amount of a plan that is not cheaper is never negative.
 * @param atMs a time within the period
 */
export function prorate(
  prices: { old: Amount; new: Amount; currency: string },
  { startMs, endMs }: Period,
  atMs: number,
): Proration {
  if (atMs < startMs || atMs > endMs) throw new RangeError('The moment is not within the period');
  const [left, whole] = [endMs - atMs, endMs - startMs];
  const credit = computeShare(prices.old, left, whole, prices.currency);
  const charge = computeShare(prices.new, left, whole, prices.currency);
  return { credit, charge, due: difference(charge, credit, prices.currency) };
}
