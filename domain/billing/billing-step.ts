import type { AccountId, InvoiceId } from '../ids.ts';

/**
 * The next step of an account's billing, and its time.
 * - `renew`: the next period begins
 * - `issue`: the invoice of an ended period gets its final lines
 * - `charge`: an invoice is charged, for the first time or again
 */
export type BillingStep = { dueMs: number } & (
  | { kind: 'renew' }
  | { kind: 'issue' | 'charge'; invoiceId: InvoiceId; accountId: AccountId }
);
