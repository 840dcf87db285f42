import type { Invoice } from '../../db/billing/invoices.ts';
import type { InvoiceLine } from '../../domain/billing/invoice.ts';
import { type Amount, isPositive, negated, sumOf, toJsonNumber } from '../../domain/billing/money.ts';
import { amount } from './money.ts';

/** The cost of a plan in a period: `standard` less `credit` is `final`. */
export const feeFields = {
  standard: amount().describe('The price of the plan with which the period began, and of changes within it'),
  credit: amount().describe('For the unused part of the plan before a change'),
  final: amount(),
};

/** Exact amounts of a plan in a period. */
interface Fee {
  standard: Amount;
  credit: Amount;
  final: Amount;
}

/** Adds up the plan lines in the invoices of a period. Lines that include usage in a free plan belong to the usage. */
export function feeOf(lines: readonly InvoiceLine[], currency: string): Fee {
  const amounts = lines
    .filter((line) => line.type === 'subscription' && !isIncludedUsage(line))
    .map((line) => line.amount);
  const sum = (of: readonly Amount[]) => sumOf(of, currency);
  const credits = amounts.filter((each) => each.startsWith('-')).map((each) => negated(each, currency));
  return { standard: sum(amounts.filter(isPositive)), credit: sum(credits), final: sum(amounts) };
}

export function presentFee({ standard, credit, final }: Fee) {
  return { standard: toJsonNumber(standard), credit: toJsonNumber(credit), final: toJsonNumber(final) };
}

/** The cost of usage, less the usage that a free plan includes. */
export function usageCostOf(lines: readonly InvoiceLine[], currency: string): Amount {
  return sumOf(
    lines.filter((line) => line.type === 'usage' || isIncludedUsage(line)).map((line) => line.amount),
    currency,
  );
}

const isIncludedUsage = ({ description }: InvoiceLine) => description.startsWith('Usage included in ');

/** The lines of several invoices. */
export const linesOf = (invoices: readonly Invoice[]): InvoiceLine[] => invoices.flatMap(({ lines }) => lines);
