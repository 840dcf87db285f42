import { type Amount, costOf, decimal, isPositive, negated, quotient, sumOf, taxOn } from './money.ts';

/**
 * - `draft`: shows what the running period costs so far; it is not owed
 * - `open`: issued, and to be paid
 * - `paid`: nothing is left to pay
 * - `past_due`: each attempt to charge it failed
 * - `void`: issued for a change that did not happen
 */
export const invoiceStatuses = ['draft', 'open', 'paid', 'past_due', 'void'] as const;
export type InvoiceStatus = (typeof invoiceStatuses)[number];

/** The moves of an invoice. A past due one is paid by a later charge. */
export const invoiceMoves: Readonly<Record<InvoiceStatus, readonly InvoiceStatus[]>> = {
  draft: ['open'],
  open: ['paid', 'past_due', 'void'],
  past_due: ['paid', 'void'],
  paid: [],
  void: [],
};

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

/** A price that is charged once, or a credit. */
export function subscriptionLine(description: string, amount: Amount): InvoiceLine {
  return { type: 'subscription', description, quantity: '1', unitPrice: amount, amount };
}

/** What was used at one price. */
export interface UsageSum {
  description: string;
  /** A whole number of a small unit, of which `perUnit` make one unit that has a price. */
  amount: string;
  perUnit: number;
  unitPrice: Amount;
}

/** A line for each price of each kind of usage that there was. The amount is rounded from the exact quantity. */
export function usageLines(sums: readonly UsageSum[], currency: string): InvoiceLine[] {
  return sums
    .filter(({ amount }) => isPositive(amount))
    .map(({ description, amount, perUnit, unitPrice }) => {
      const quantity = quotient(amount, perUnit);
      return { type: 'usage', description, quantity, unitPrice, amount: costOf(quantity, unitPrice, currency) };
    });
}

/** Usage on a free plan is shown, and costs nothing. Empty where there was none. */
export function includedUsageLines(planName: string, lines: readonly InvoiceLine[], currency: string): InvoiceLine[] {
  const cost = sumOf(
    lines.filter(({ type }) => type === 'usage').map(({ amount }) => amount),
    currency,
  );
  return isPositive(cost) ? [subscriptionLine(`Usage included in the ${planName} plan`, negated(cost, currency))] : [];
}

/** The lines that charge a plan until the period ends and credit what is left of the one before: nothing, where it was free. */
export function prorationLines(
  plans: { old: string; new: string },
  { charge, credit }: { charge: Amount; credit: Amount },
  currency: string,
): InvoiceLine[] {
  const charged = subscriptionLine(`Rest of the period on the ${plans.new} plan`, charge);
  if (!isPositive(credit)) return [charged];
  return [charged, subscriptionLine(`Unused time of the ${plans.old} plan`, negated(credit, currency))];
}

/** Sums of lines. Only lines and the tax are rounded, so the sums are those a reader of the invoice gets. */
export function totalsOf(lines: readonly InvoiceLine[], taxRate: string, currency: string): InvoiceTotals {
  const subtotal = sumOf(
    lines.map(({ amount }) => amount),
    currency,
  );
  const taxAmount = taxOn(subtotal, taxRate, currency);
  return { subtotal, taxAmount, totalAmount: sumOf([subtotal, taxAmount], currency) };
}

/**
 * What a period will cost if usage goes on as it did: the usage so far, stretched from the part of the period that is
 * over to all of it. In the first hour there is too little to go by, and it stays as it is.
 */
export function projectUsage(usedSoFar: Amount, period: { startMs: number; endMs: number }, atMs: number): string {
  const [over, whole] = [atMs - period.startMs, period.endMs - period.startMs];
  if (over < 3_600_000 || over >= whole) return usedSoFar;
  return decimal(usedSoFar).times(whole).div(over).toFixed(6);
}
