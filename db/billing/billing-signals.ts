import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId } from '../../domain/ids.ts';
import { requestSignal } from '../core/outbox.ts';
import { query } from '../core/query.ts';

/**
 * Signals that unpaid invoices should be charged again, because there is a new way to pay them. Does nothing without
 * unpaid invoices.
 */
export async function signalPaymentPossible(tx: EntityManager, accountId: AccountId): Promise<void> {
  if (await hasUnpaidInvoice(tx, accountId)) requestSignal(tx, 'billing', accountId, 'paymentPossible', { accountId });
}

/** Whether an invoice of a period is issued and not paid. */
export async function hasUnpaidInvoice(tx: EntityManager, accountId: AccountId): Promise<boolean> {
  const unpaid = await query(
    tx,
    "select 1 from invoices where account_id = ? and kind = 'period' and status in ('open', 'past_due') limit 1",
    [accountId],
  );
  return unpaid.length > 0;
}
