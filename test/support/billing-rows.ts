import type { EntityManager } from '@mikro-orm/postgresql';
import { newId } from '../../db/core/new-id.ts';
import type { AccountId, InvoiceId } from '../../domain/ids.ts';

/** An invoice of a period of an account in the past, and a change of its plan. */
export async function addBilling(em: EntityManager, accountId: AccountId): Promise<InvoiceId> {
  const fork = em.fork();
  const invoiceId = newId('invoice');
  await fork.execute(
    `insert into invoices (invoice_id, account_id, kind, period_start, period_end, plan, currency, tax_rate)
     select ?, ?, 'period', start, start + interval '1 day', plan, 'USD', 0
       from subscriptions, lateral (select period_start - (1 + (select count(*) from invoices)) * interval '10 days' as start) s
      where account_id = ?`,
    [invoiceId, accountId, accountId],
  );
  await fork.execute(
    `insert into subscription_changes (change_id, account_id, subscription_id, change_reason, old_plan, new_plan, old_period_start,
       old_period_end, new_period_start, new_period_end, prorated_refund_amount, invoice_id, changed_at)
     select ?, account_id, subscription_id, 'upgraded', plan, plan, period_start, period_end, period_start, period_end, 1.50, ?,
            clock_timestamp() from subscriptions where account_id = ?`,
    [newId('planChange'), invoiceId, accountId],
  );
  return invoiceId;
}
