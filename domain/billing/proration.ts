import { type Amount, difference, shareOf } from './money.ts';
import type { Period } from './periods.ts';

/** What a change to a dearer plan costs for the rest of a period. */
export interface Proration {
  /** For the part of the old plan's price that is not used. */
  credit: Amount;
  /** For the new plan, until the period ends. */
  charge: Amount;
  /** `charge − credit`, before tax. */
  due: Amount;
}

/**
 * Prorates by the millisecond. Both prices are rounded by themselves, since both are lines of an invoice; rounding
 * keeps their order, so nothing negative is due for a plan that is not cheaper.
 * @param atMs within the period
 */
export function prorate(
  prices: { old: Amount; new: Amount; currency: string },
  { startMs, endMs }: Period,
  atMs: number,
): Proration {
  if (atMs < startMs || atMs > endMs) throw new RangeError('The moment is not within the period');
  const [left, whole] = [endMs - atMs, endMs - startMs];
  const credit = shareOf(prices.old, left, whole, prices.currency);
  const charge = shareOf(prices.new, left, whole, prices.currency);
  return { credit, charge, due: difference(charge, credit, prices.currency) };
}
