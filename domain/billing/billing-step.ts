import type { AccountId, InvoiceId } from '../ids.ts';

/**
 * What the billing of an account does next, and when.
 * - `renew`: the next period begins
 * - `issue`: the invoice of a period that is over gets its final lines
 * - `charge`: an invoice is charged, for the first time or again
 */
export type BillingStep = { dueMs: number } & (
  | { kind: 'renew' }
  | { kind: 'issue' | 'charge'; invoiceId: InvoiceId; accountId: AccountId }
);
