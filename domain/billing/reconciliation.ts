import type { AccountId } from '../ids.ts';
import { type Amount, compare } from './money.ts';

/**
 * What a reconciliation may find. Nothing is corrected by itself.
 * - `ledger_not_balanced`: the entries of a transaction do not sum to zero
 * - `invoice_not_booked`: an issued invoice is not in the ledger with its amounts
 * - `booking_without_invoice`: the ledger has an invoice that is a draft, or that is not known
 * - `invoice_lines_differ`: the lines of an issued invoice do not add up to its subtotal
 * - `receivable_differs`: what an account owes by its invoices, and what the ledger says, differ
 * - `charge_not_booked`: a charge that succeeded is not in the ledger with its amount
 * - `booking_without_charge`: the ledger has a charge that did not succeed, or that is not known
 * - `refund_not_booked`: what was refunded of a charge, and what the ledger says, differ
 * - `charge_differs`: the processor has a charge with another status, amount or refund
 * - `charge_unknown`: the processor charged a customer of ours, and we have no such charge
 * - `charge_missing`: we have a charge that the processor does not have
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
] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

export interface Difference {
  kind: DifferenceKind;
  /** The transaction, invoice, charge or account. */
  objectId: string;
  /** Null: not known. */
  accountId: AccountId | null;
  /** What our rows say. */
  expected: string;
  /** What the ledger, or the processor, says. */
  found: string;
}

/** A charge as one side has it. */
export interface ComparedCharge {
  paymentIntentId: string;
  status: string;
  amount: Amount;
  currency: string;
  amountRefunded: Amount;
}

/** Days back from now in which charges are compared with the processor's. */
export const comparedDays = 35;
/** Newer charges are left to the next night: their notifications may be on their way. */
export const settledAfterMinutes = 60;

/** Whether both sides say the same about a charge. `1` and `1.00` are the same amount. */
export function isSameCharge(ours: ComparedCharge, theirs: ComparedCharge): boolean {
  return (
    ours.status === theirs.status &&
    ours.currency === theirs.currency &&
    compare(ours.amount, theirs.amount) === 0 &&
    compare(ours.amountRefunded, theirs.amountRefunded) === 0
  );
}

/** For people. */
export function describeCharge({ status, amount, currency, amountRefunded }: ComparedCharge): string {
  const refunded = compare(amountRefunded, '0') > 0 ? `, ${amountRefunded} refunded` : '';
  return `${status}, ${amount} ${currency}${refunded}`;
}
