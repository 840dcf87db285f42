import type { EntityManager } from '@mikro-orm/postgresql';
import { nextChargeAfter, unknownOutcomeMs } from '../../domain/billing/dunning.ts';
import { balanceUseEntries, invoiceEntries, reversed } from '../../domain/billing/ledger.ts';
import { type Amount, compare, difference, isPositive, isZero, lesser } from '../../domain/billing/money.ts';
import type { AccountId, InvoiceId } from '../../domain/ids.ts';
import { addNotification } from '../accounts/notifications.ts';
import { User } from '../accounts/user.entity.ts';
import { lockRow } from '../core/lock-row.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { findInvoice, type Invoice } from './invoices.ts';
import { post, readBalance } from './ledger.ts';
import { readSubscription, recordSubscriptionEvent } from './subscriptions.ts';

/** The unpaid amount of an invoice. */
export function amountDue({ totalAmount, paidFromBalance, currency }: Invoice): Amount {
  return difference(totalAmount, paidFromBalance, currency);
}

/**
 * Issues a draft with final lines, and pays as much of it as possible from the account's balance. The caller has locked
 * the account's row.
 * @returns the invoice after that
 */
export async function issue(tx: EntityManager, draft: Invoice, at: Date): Promise<Invoice> {
  const { invoiceId, accountId, currency } = draft;
  await query(
    tx,
    `update invoices set status = 'open', issued_at = ?, due_at = ?, issue_at = null, updated_at = now(),
            next_charge_at = case kind when 'period' then ?::timestamptz end where invoice_id = ?`,
    [at, at, at, invoiceId],
  );
  await post(tx, {
    ...{ accountId, currency, kind: 'invoice_issued', description: `Invoice ${invoiceId}` },
    ...{ reference: `invoice ${invoiceId}`, entries: invoiceEntries(draft, currency) },
  });
  return payFromBalance(tx, invoiceId, at);
}

/** Pays as much of an open invoice as possible from the account's balance. The caller has locked the account's row. */
async function payFromBalance(tx: EntityManager, invoiceId: InvoiceId, at: Date): Promise<Invoice> {
  const invoice = (await findInvoice(tx, invoiceId, true))!;
  if (invoice.status !== 'open' && invoice.status !== 'past_due') return invoice;
  const { accountId, currency, paidFromBalance } = invoice;
  const used = lesser(amountDue(invoice), await readBalance(tx, accountId, currency));
  if (isPositive(used)) {
    await post(tx, {
      ...{ accountId, currency, kind: 'balance_used', description: `Invoice ${invoiceId}` },
      ...{ reference: `balance ${invoiceId} ${paidFromBalance}`, entries: balanceUseEntries(used, currency) },
    });
    await query(
      tx,
      'update invoices set paid_from_balance = paid_from_balance + ?::numeric, updated_at = now() where invoice_id = ?',
      [used, invoiceId],
    );
  }
  const after = (await findInvoice(tx, invoiceId))!;
  if (!isZero(amountDue(after))) return after;
  await markPaid(tx, invoiceId, at);
  return { ...after, status: 'paid', paidAt: at };
}

/** Whether the account's balance covers the unpaid amount. */
export async function balanceCovers(em: EntityManager, invoice: Invoice): Promise<boolean> {
  return compare(await readBalance(em.fork(), invoice.accountId, invoice.currency), amountDue(invoice)) >= 0;
}

/** Pays from the balance, in its own transaction. */
export function payInvoiceFromBalance(
  em: EntityManager,
  { accountId, invoiceId }: Invoice,
  at: Date,
): Promise<Invoice> {
  return em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    return payFromBalance(tx, invoiceId, at);
  });
}

/**
 * Marks an invoice as paid, in the transaction that books the payment. When no invoice is past due any more, the
 * subscription becomes active again.
 * @returns false when the invoice was void, so the payment has no invoice
 */
export async function markPaid(tx: EntityManager, invoiceId: string, at: Date): Promise<boolean> {
  const invoice = await findInvoice(tx, invoiceId, true);
  if (!invoice || invoice.status === 'paid') return true;
  if (invoice.status === 'void') return false;
  await query(
    tx,
    `update invoices set status = 'paid', paid_at = ?, next_charge_at = null, failure_reason = null, updated_at = now()
      where invoice_id = ?`,
    [at, invoiceId],
  );
  await query(
    tx,
    `update subscriptions s set status = 'active', updated_at = now() where account_id = ? and status = 'past_due'
        and not exists (select from invoices where account_id = s.account_id and status = 'past_due')`,
    [invoice.accountId],
  );
  return true;
}

/**
 * Records a failed attempt at a charge, once. The invoice of a period is tried again according to
 * `domain/billing/dunning.ts`. After the last day it becomes past due, and so does the subscription. The account gets a
 * mail.
 * @param attempt the number of attempts before this one
 */
export async function recordFailedAttempt(
  em: EntityManager,
  { invoiceId, accountId }: Pick<Invoice, 'invoiceId' | 'accountId'>,
  attempt: number,
  { reason, at }: { reason: string; at: Date },
): Promise<void> {
  await em.fork().transactional(async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const invoice = (await findInvoice(tx, invoiceId, true))!;
    const isOpen = invoice.status === 'open' || invoice.status === 'past_due';
    if (!isOpen || invoice.chargeAttempts !== attempt) return;
    const first = invoice.firstAttemptAt ?? at;
    const nextMs = invoice.kind === 'period' ? nextChargeAfter(first.getTime(), at.getTime()) : null;
    const isPastDue = invoice.kind === 'period' && nextMs === null;
    await query(
      tx,
      `update invoices set charge_attempts = charge_attempts + 1, first_attempt_at = ?, last_attempt_at = ?, failure_reason = ?,
              next_charge_at = ?, status = ?, updated_at = now() where invoice_id = ?`,
      [
        first,
        at,
        reason,
        nextMs === null ? null : new Date(nextMs),
        isPastDue ? 'past_due' : invoice.status,
        invoiceId,
      ],
    );
    if (isPastDue) await becomePastDue(tx, accountId, invoiceId);
    // For a change of the plan, the caller gets the reason in the reply.
    if (invoice.kind !== 'period') return;
    const input = { accountId, invoiceId, attempt: attempt + 1, nextAttemptAtMs: nextMs };
    requestStart(tx, 'invoiceMail', `${invoiceId}/${input.attempt}`, input);
  });
}

async function becomePastDue(tx: EntityManager, accountId: AccountId, invoiceId: InvoiceId): Promise<void> {
  const changed = await query(
    tx,
    `update subscriptions set status = 'past_due', updated_at = now() where account_id = ? and status = 'active' returning 1`,
    [accountId],
  );
  if (changed.length === 0) return;
  const roots = await tx.find(User, { accountId, isRootUser: true, status: 'enabled' });
  for (const { userId } of roots) {
    addNotification(tx, {
      ...{ accountId, userId, type: 'subscription_past_due', category: 'billing' },
      title: 'An invoice is past due',
      message:
        'All attempts to charge it failed. Creates and resumes are refused until it is paid; add a payment method.',
      ...{ relatedEntityType: 'invoice', relatedEntityId: invoiceId },
    });
  }
  await recordSubscriptionEvent(tx, await readSubscription(tx, accountId), 'subscription.past_due');
}

/** Postpones the next check of a charge with an unknown outcome. */
export async function postponeCharge(em: EntityManager, invoiceId: string, at: Date): Promise<void> {
  const later = new Date(at.getTime() + unknownOutcomeMs);
  await query(
    em.fork(),
    "update invoices set next_charge_at = ? where invoice_id = ? and kind = 'period' and status in ('open', 'past_due')",
    [later, invoiceId],
  );
}

/**
 * Voids an unpaid invoice, and returns the part that was paid from the balance. The caller has locked the account's
 * row.
 */
export async function voidInvoice(tx: EntityManager, invoice: Invoice): Promise<void> {
  const { invoiceId, accountId, currency, paidFromBalance } = invoice;
  const posting = { accountId, currency, kind: 'invoice_voided', description: `Invoice ${invoiceId} is void` } as const;
  await query(
    tx,
    "update invoices set status = 'void', next_charge_at = null, updated_at = now() where invoice_id = ?",
    [invoiceId],
  );
  await post(tx, {
    ...posting,
    ...{ reference: `void ${invoiceId}`, entries: reversed(invoiceEntries(invoice, currency), currency) },
  });
  await post(tx, {
    ...posting,
    ...{
      reference: `void balance ${invoiceId}`,
      entries: reversed(balanceUseEntries(paidFromBalance, currency), currency),
    },
  });
}

/** Requests a new charge of invoices whose charge has failed: at once, but not twice in a minute. */
export async function retryCharges(em: EntityManager, accountId: AccountId, at: Date): Promise<void> {
  await query(
    em.fork(),
    `update invoices set next_charge_at = least(next_charge_at, greatest(?::timestamptz, last_attempt_at + interval '1 minute'))
      where account_id = ? and kind = 'period' and status in ('open', 'past_due') and charge_attempts > 0`,
    [at, accountId],
  );
}
