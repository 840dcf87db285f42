import type { DataOf } from '../../api/client.ts';

type Kind = DataOf<'getLatestReconciliation'>['differences'][number]['kind'];

/** What each kind of difference says. */
export const meaningOfDifference: Readonly<Record<Kind, string>> = {
  ledger_not_balanced: 'The entries of a transaction do not add up to zero.',
  invoice_not_booked: 'An issued invoice is not in the ledger with its amounts.',
  booking_without_invoice: 'The ledger has an invoice that is a draft or does not exist.',
  invoice_lines_differ: 'The lines of an issued invoice do not add up to its sum.',
  receivable_differs: 'The account owes another amount by its invoices than by the ledger.',
  charge_not_booked: 'A charge that succeeded is not in the ledger with its amount.',
  booking_without_charge: 'The ledger has a charge that did not succeed or does not exist.',
  refund_not_booked: 'The refunds of a charge differ from those in the ledger.',
  charge_differs: 'The processor has the charge with another status, amount, refund or customer.',
  charge_unknown: 'The processor has a charge of one of our customers that the platform does not have.',
  charge_missing: 'The platform has a charge that the processor does not have.',
  usage_refused: 'Usage was not recorded, because the sandbox or the image cannot have used that much.',
};
