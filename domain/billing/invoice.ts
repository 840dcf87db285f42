import { type Amount, computeCost, decimal, isPositive, negated, quotient, sumAmounts, taxOn } from './money.ts';

/**
 * - `draft`: shows the cost of the running period so far. The customer does not owe it yet.
 * - `open`: issued and unpaid
 * - `paid`: nothing is left to pay. Final.
 * - `past_due`: each attempt to charge it failed. A later charge can pay it.
 * - `void`: issued for a change that did not happen. Final.
 */
export const invoiceStatuses = ['draft', 'open', 'paid', 'past_due', 'void'] as const;
export type InvoiceStatus = (typeof invoiceStatuses)[number];

export type LineType = 'subscription' | 'usage';

/** `amount` is `quantity × unitPrice`, rounded half to even to the unit of the currency. */
export interface InvoiceLine {
  type: LineType;
  description: string;
  quantity: string;
  unitPrice: Amount;
  amount: Amount;
}

export interface InvoiceTotals {
  subtotal: Amount;
  taxAmount: Amount;
  totalAmount: Amount;
}

/** A one-time price, or a credit. */
export function subscriptionLine(description: string, amount: Amount): InvoiceLine {
  return { type: 'subscription', description, quantity: '1', unitPrice: amount, amount };
}

/** The usage at one price. */
export interface UsageSum {
  description: string;
  /** A whole number of small units. `perUnit` small units make one unit that has a price. */
  amount: string;
  perUnit: number;
  unitPrice: Amount;
}

/** One line for each price of each used type. The amount is rounded from the exact quantity. */
export function usageLines(sums: readonly UsageSum[], currency: string): InvoiceLine[] {
  return sums
    .filter(({ amount }) => isPositive(amount))
    .map(({ description, amount, perUnit, unitPrice }) => {
      const quantity = quotient(amount, perUnit);
      return { type: 'usage', description, quantity, unitPrice, amount: computeCost(quantity, unitPrice, currency) };
    });
}

/** The lines of usage on a free plan, shown at a price of zero. Empty if there was no usage. */
export function includedUsageLines(planName: string, lines: readonly InvoiceLine[], currency: string): InvoiceLine[] {
  const cost = sumAmounts(
    lines.filter(({ type }) => type === 'usage').map(({ amount }) => amount),
    currency,
  );
  return isPositive(cost) ? [subscriptionLine(`Usage included in the ${planName} plan`, negated(cost, currency))] : [];
}

/**
 * The lines of a plan change: the new plan's price until the period ends, and a credit for the rest of the old plan.
 * Empty if the old plan was free.
 */
export function prorationLines(
  plans: { old: string; new: string },
  { charge, credit }: { charge: Amount; credit: Amount },
  currency: string,
): InvoiceLine[] {
  const charged = subscriptionLine(`Rest of the period on the ${plans.new} plan`, charge);
  if (!isPositive(credit)) return [charged];
  return [charged, subscriptionLine(`Unused time of the ${plans.old} plan`, negated(credit, currency))];
}

/**
 * Sums of lines. Only the lines and the tax are rounded, so a reader of the invoice who adds the lines gets these sums.
 */
export function computeTotals(lines: readonly InvoiceLine[], taxRate: string, currency: string): InvoiceTotals {
  const subtotal = sumAmounts(
    lines.map(({ amount }) => amount),
    currency,
  );
  const taxAmount = taxOn(subtotal, taxRate, currency);
  return { subtotal, taxAmount, totalAmount: sumAmounts([subtotal, taxAmount], currency) };
}

/**
 * The cost of the period if usage continues at its rate so far: the usage divided by the elapsed part of the period. In
 * the first hour the elapsed part is too short for an estimate, and the usage so far is returned.
 */
export function projectUsage(usedSoFar: Amount, period: { startMs: number; endMs: number }, atMs: number): string {
  const [over, whole] = [atMs - period.startMs, period.endMs - period.startMs];
  if (over < 3_600_000 || over >= whole) return usedSoFar;
  return decimal(usedSoFar).times(whole).div(over).toFixed(6);
}
