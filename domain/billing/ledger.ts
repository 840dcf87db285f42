import { type Amount, decimal, difference, inUnits, isZero, negated } from './money.ts';

/**
 * The ledger accounts of one customer's account. A debit is positive, a credit negative, so the entries of each
 * transaction sum to zero.
 * - `balance`: prepaid credit. The platform owes it to the customer, so a positive balance is a negative sum.
 * - `granted`: credit that the platform gave away
 * - `receivable`: issued on invoices and not paid
 * - `revenue`, `tax`: earned money, and money collected for the state
 * - `cash`: money received through the payment processor, less refunds
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

/** The operator grants credit. */
export const grantEntries = (amount: Amount, currency: string) => move(amount, currency, 'granted', 'balance');

/** Unused credit is paid back outside the platform. */
export const refundEntries = (amount: Amount, currency: string) => move(amount, currency, 'balance', 'cash');

/** The entries of an issued invoice. */
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

/** The entries that undo `entries`. */
export function reversed(entries: LedgerEntries, currency: string): LedgerEntries {
  return entries.map(({ ledgerAccount, amount }) => ({ ledgerAccount, amount: negated(amount, currency) }));
}

/** Credit pays for an invoice. */
export const balanceUseEntries = (amount: Amount, currency: string) => move(amount, currency, 'balance', 'receivable');

/** A charge pays for an invoice. */
export const paymentEntries = (amount: Amount, currency: string) => move(amount, currency, 'cash', 'receivable');

/** A charge is refunded. The refunded part is no longer revenue, and its tax is no longer owed to the state. */
export function paymentRefundEntries(amount: Amount, tax: Amount, currency: string): LedgerEntries {
  return [
    { ledgerAccount: 'revenue', amount: difference(amount, tax, currency) },
    { ledgerAccount: 'tax', amount: tax },
    { ledgerAccount: 'cash', amount: negated(amount, currency) },
  ];
}

/**
 * The tax in a partial refund of a charge, in proportion to the tax of the invoice. The taxes of all partial refunds
 * add up to the tax of the full refund, for every division into parts.
 * @param refunded the refunded amount of the charge, before and after this refund
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
