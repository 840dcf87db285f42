import type { AccountId } from '../ids.ts';
import { type Amount, compare } from './money.ts';

/**
 * The kinds of differences that a reconciliation may find. People correct them.
 * - `ledger_not_balanced`: the entries of a transaction do not sum to zero
 * - `invoice_not_booked`: the ledger lacks an issued invoice, or has other amounts for it
 * - `booking_without_invoice`: the ledger has an invoice that is a draft or unknown
 * - `invoice_lines_differ`: the lines of an issued invoice do not add up to its subtotal
 * - `receivable_differs`: the open amount of an account differs between its invoices and the ledger
 * - `charge_not_booked`: the ledger lacks a successful charge, or has another amount for it
 * - `booking_without_charge`: the ledger has a charge that did not succeed or is unknown
 * - `refund_not_booked`: the refunded amount of a charge differs between the charge and the ledger
 * - `charge_differs`: the processor has a charge with another status, amount or refund
 * - `charge_unknown`: the processor charged a customer of ours, and we have no such charge
 * - `charge_missing`: we have a charge that the processor does not have
 * - `usage_refused`: usage was not recorded, because the sandbox or the image cannot have used that much
 */
export const differenceKinds = [
  'ledger_not_balanced',
  'invoice_not_booked',
  'booking_without_invoice',
  'invoice_lines_differ',
  'receivable_differs',
  'charge_not_booked',
  'booking_without_charge',
  'refund_not_booked',
  'charge_differs',
  'charge_unknown',
  'charge_missing',
  'usage_refused',
] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

export interface Difference {
  kind: DifferenceKind;
  /** The id of the transaction, invoice, charge or account. */
  objectId: string;
  /** Null: not known. */
  accountId: AccountId | null;
  /** The value in our rows. */
  expected: string;
  /** The value in the ledger or at the processor. */
  found: string;
}

/** A charge in our rows or at the processor. */
export interface ComparedCharge {
  paymentIntentId: string;
  status: string;
  amount: Amount;
  currency: string;
  amountRefunded: Amount;
}

/** The number of past days for which charges are compared with the processor's. */
export const comparedDays = 35;
/** Newer charges are compared the next night, because their notifications may not have arrived yet. */
export const settledAfterMinutes = 60;

/** Whether both sides have the same facts of a charge. `1` and `1.00` are the same amount. */
export function isSameCharge(ours: ComparedCharge, theirs: ComparedCharge): boolean {
  return (
    ours.status === theirs.status &&
    ours.currency === theirs.currency &&
    compare(ours.amount, theirs.amount) === 0 &&
    compare(ours.amountRefunded, theirs.amountRefunded) === 0
  );
}

/** A text for people. */
export function describeCharge({ status, amount, currency, amountRefunded }: ComparedCharge): string {
  const refunded = compare(amountRefunded, '0') > 0 ? `, ${amountRefunded} refunded` : '';
  return `${status}, ${amount} ${currency}${refunded}`;
}
