import type { UsageType } from '../usage/types.ts';
import type { Amount } from './money.ts';

/** The number of earlier periods in which an invoice looks for usage that was recorded late. */
export const latePeriods = 2;

/** The used or the billed amount at one price. */
export interface PricedUsage {
  usageType: UsageType;
  unitPrice: Amount;
  /** A whole number of the small unit of the type. */
  amount: string;
}

/**
 * The usage of a period that is on no invoice. For each type the result is never more than the difference summed over
 * all prices: usage that was billed before it was recorded may be recorded at another price, and it is not billed
 * again.
 * @param used all recorded usage of the period
 * @param billed all billed usage of the period, from all invoices
 */
export function lateUsage(used: readonly PricedUsage[], billed: readonly PricedUsage[]): PricedUsage[] {
  const late: PricedUsage[] = [];
  for (const usageType of new Set(used.map((each) => each.usageType))) {
    const before = billed.filter((each) => each.usageType === usageType);
    const now = used.filter((each) => each.usageType === usageType);
    let left = sum(now) - sum(before);
    for (const { unitPrice, amount } of now) {
      const added = BigInt(amount) - sum(before.filter((each) => each.unitPrice === unitPrice));
      const billable = added < left ? added : left;
      if (billable <= 0n) continue;
      late.push({ usageType, unitPrice, amount: String(billable) });
      left -= billable;
    }
  }
  return late;
}

const sum = (parts: readonly PricedUsage[]) => parts.reduce((total, { amount }) => total + BigInt(amount), 0n);
