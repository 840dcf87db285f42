import type { UsageType } from '../usage-types.ts';
import type { Amount } from './money.ts';

/** How many periods before its own an invoice looks back for usage that was recorded late. */
export const latePeriods = 2;

/** What was used at one price, or what an invoice asked for of it. */
export interface PricedUsage {
  usageType: UsageType;
  unitPrice: Amount;
  /** A whole number of the small unit of the type. */
  amount: string;
}

/**
 * What was used in a period and is on no invoice. Never more of a type than the difference of all its prices: usage that was billed
 * before it was recorded may be recorded at another price, and is not billed again.
 * @param used all of the period, as it is recorded now
 * @param billed of the period, on all invoices
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
