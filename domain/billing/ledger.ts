import { type Amount, decimal, difference, inUnits, isZero, negated } from './money.ts';

/**
 * Where money of one customer's account comes from and goes to. A debit is positive, a credit negative, so that the
 * entries of each transaction sum to zero.
 * - `balance`: prepaid credit; the platform owes it to the customer, so a positive balance is a negative sum
 * - `granted`: what the platform gave away
 * - `receivable`: issued on invoices and not paid
 * - `revenue`, `tax`: earned, and collected for the state
 * - `cash`: received through the payment processor, less what was paid back
 */
export const ledgerAccounts = ['balance', 'granted', 'receivable', 'revenue', 'tax', 'cash'] as const;
export type LedgerAccount = (typeof ledgerAccounts)[number];

export const ledgerKinds = [
  'credit_granted',
  'credit_refunded',
  'invoice_issued',
  'invoice_voided',
  'balance_used',
  'payment_received',
  'payment_refunded',
] as const;
export type LedgerKind = (typeof ledgerKinds)[number];

export type LedgerEntries = readonly { ledgerAccount: LedgerAccount; amount: Amount }[];

/** Moves an amount from one ledger account to another. */
function move(amount: Amount, currency: string, to: LedgerAccount, from: LedgerAccount): LedgerEntries {
  return [
    { ledgerAccount: to, amount },
    { ledgerAccount: from, amount: negated(amount, currency) },
  ];
}

/** The operator gives credit away. */
export const grantEntries = (amount: Amount, currency: string) => move(amount, currency, 'granted', 'balance');

/** Unused credit is paid back outside of the platform. */
export const refundEntries = (amount: Amount, currency: string) => move(amount, currency, 'balance', 'cash');

/** What an invoice asks for. */
export function invoiceEntries(
  totals: { subtotal: Amount; taxAmount: Amount; totalAmount: Amount },
  currency: string,
): LedgerEntries {
  return [
    { ledgerAccount: 'receivable', amount: totals.totalAmount },
    { ledgerAccount: 'revenue', amount: negated(totals.subtotal, currency) },
    { ledgerAccount: 'tax', amount: negated(totals.taxAmount, currency) },
  ];
}

/** Takes back what `entries` booked. */
export function reversed(entries: LedgerEntries, currency: string): LedgerEntries {
  return entries.map(({ ledgerAccount, amount }) => ({ ledgerAccount, amount: negated(amount, currency) }));
}

/** Credit pays for an invoice. */
export const balanceUseEntries = (amount: Amount, currency: string) => move(amount, currency, 'balance', 'receivable');

/** A charge pays for an invoice. */
export const paymentEntries = (amount: Amount, currency: string) => move(amount, currency, 'cash', 'receivable');

/** A charge is given back. What it paid for is no revenue any more, and the tax on that is not owed to the state. */
export function paymentRefundEntries(amount: Amount, tax: Amount, currency: string): LedgerEntries {
  return [
    { ledgerAccount: 'revenue', amount: difference(amount, tax, currency) },
    { ledgerAccount: 'tax', amount: tax },
    { ledgerAccount: 'cash', amount: negated(amount, currency) },
  ];
}

/**
 * The tax in what is given back of a charge: in proportion to the invoice's. The parts of a charge that is given back in several add up
 * to the tax in all of it, however it is divided.
 * @param refunded of the charge, before and after
 */
export function refundedTax(
  refunded: { before: Amount; after: Amount },
  invoice: { taxAmount: Amount; totalAmount: Amount },
  currency: string,
): Amount {
  if (isZero(invoice.totalAmount)) return inUnits(decimal('0'), currency);
  const taxIn = (amount: Amount) =>
    inUnits(decimal(amount).times(decimal(invoice.taxAmount)).div(decimal(invoice.totalAmount)), currency);
  return difference(taxIn(refunded.after), taxIn(refunded.before), currency);
}
