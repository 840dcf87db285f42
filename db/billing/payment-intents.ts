import type { EntityManager } from '@mikro-orm/postgresql';
import {
  balanceUseEntries,
  paymentEntries,
  paymentRefundEntries,
  refundedTax,
  reversed,
} from '../../domain/billing/ledger.ts';
import { type Amount, decimal, difference, inUnits, isPositive } from '../../domain/billing/money.ts';
import { type ChargeStatus, toChargeOutcome } from '../../domain/billing/payments.ts';
import { notFound } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { recordEvent } from '../core/events.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, type SqlCondition, withinScope } from '../core/scope.ts';
import { markPaid } from './invoice-payments.ts';
import { findInvoice } from './invoices.ts';
import { post } from './ledger.ts';

/** A charge at the payment processor. */
export interface PaymentIntent {
  paymentIntentId: string;
  accountId: AccountId;
  paymentMethodId: string | null;
  amount: Amount;
  currency: string;
  status: ChargeStatus;
  intentType: string;
  invoiceId: string | null;
  amountRefunded: Amount;
  failureReason: string | null;
  /** JSON. */
  metadata: string;
  createdAt: Date;
  updatedAt: Date;
}

const listed: ListedTable = {
  table: 'payment_intents',
  alias: 'i',
  key: ['payment_intent_id'],
};

/** @param type only charges of this type */
export async function listPaymentIntents(
  em: EntityManager,
  scope: Scope,
  type: string | undefined,
  listing: Listing,
): Promise<ListPage & { intents: PaymentIntent[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'i')];
  if (type !== undefined) conditions.push({ sql: 'i.intent_type = ?', values: [type] });
  const { rows, ...page } = await readPage<IntentRow>(em, listed, conditions, listing);
  return { intents: rows.map(toPaymentIntent), ...page };
}

/** @throws {AppError} `not_found` */
export async function readPaymentIntent(em: EntityManager, scope: Scope, id: string): Promise<PaymentIntent> {
  const row = await readOne<IntentRow>(em, listed, [
    withinScope(scope, 'i'),
    { sql: 'i.payment_intent_id = ?', values: [id] },
  ]);
  if (!row) throw notFound('Payment intent');
  return toPaymentIntent(row);
}

interface IntentRow {
  payment_intent_id: string;
  account_id: AccountId;
  payment_method_id: string | null;
  amount: string;
  currency: string;
  status: ChargeStatus;
  intent_type: string;
  invoice_id: string | null;
  amount_refunded: string;
  failure_reason: string | null;
  metadata: string;
  created_at: string;
  updated_at: string;
  failed_attempts: string[];
}

function toPaymentIntent(row: IntentRow): PaymentIntent {
  const { currency } = row;
  return {
    paymentIntentId: row.payment_intent_id,
    accountId: row.account_id,
    paymentMethodId: row.payment_method_id,
    amount: inUnits(decimal(row.amount), currency),
    currency,
    status: row.status,
    intentType: row.intent_type,
    invoiceId: row.invoice_id,
    amountRefunded: inUnits(decimal(row.amount_refunded), currency),
    failureReason: row.failure_reason,
    metadata: row.metadata,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}

export type NewPaymentIntent = Pick<
  PaymentIntent,
  'paymentIntentId' | 'accountId' | 'paymentMethodId' | 'amount' | 'currency' | 'status' | 'intentType' | 'invoiceId'
>;

/**
 * Stores a charge before it is confirmed. An invoice has one.
 * @returns the id of the stored charge of the invoice, which is the first one
 */
export async function keepPaymentIntent(em: EntityManager, made: NewPaymentIntent): Promise<string> {
  const metadata = JSON.stringify(made.invoiceId === null ? {} : { invoice_id: made.invoiceId });
  await query(
    em.fork(),
    `insert into payment_intents (payment_intent_id, account_id, payment_method_id, amount, currency, status, intent_type,
       invoice_id, metadata) values (?, ?, ?, ?::numeric, ?, ?, ?, ?, ?) on conflict do nothing`,
    [
      ...[made.paymentIntentId, made.accountId, made.paymentMethodId, made.amount, made.currency, made.status],
      ...[made.intentType, made.invoiceId, metadata],
    ],
  );
  if (made.invoiceId === null) return made.paymentIntentId;
  const kept = await findPaymentIntentOfInvoice(em, made.invoiceId);
  if (kept === null) throw new Error(`The charge ${made.paymentIntentId} was cancelled before; another one is needed`);
  return kept;
}

/** Null: no charge was prepared. */
export async function findPaymentIntentOfInvoice(em: EntityManager, invoiceId: string): Promise<string | null> {
  const [row] = await query<{
    payment_intent_id: string;
  }>(em.fork(), 'select payment_intent_id from payment_intents where invoice_id = ?', [invoiceId]);
  return row?.payment_intent_id ?? null;
}

/** Allows another charge for an invoice: this one was cancelled, and can no longer move money. */
export async function releaseCanceledIntent(em: EntityManager, paymentIntentId: string): Promise<void> {
  await query(
    em.fork(),
    "update payment_intents set invoice_id = null, updated_at = now() where payment_intent_id = ? and status = 'canceled'",
    [paymentIntentId],
  );
}

/** The last cancelled charge of an invoice that does not belong to it any more. Null: there is none. */
export async function findLastReleasedIntent(
  em: EntityManager,
  { invoiceId, accountId }: { invoiceId: string; accountId: AccountId },
): Promise<string | null> {
  const [row] = await query<{ payment_intent_id: string }>(
    em.fork(),
    `select payment_intent_id from payment_intents
      where account_id = ? and invoice_id is null and metadata::jsonb ->> 'invoice_id' = ?
      order by created_at desc, payment_intent_id limit 1`,
    [accountId, invoiceId],
  );
  return row?.payment_intent_id ?? null;
}

/** The current state of a charge, as read from the processor. */
export interface ReportedCharge {
  paymentIntentId: string;
  paymentMethodId: string | null;
  status: ChargeStatus;
  failureReason: string | null;
  /** The processor's id of its last attempt at the charge. Null: it was not attempted. */
  attemptId: string | null;
  amountRefunded?: Amount;
}

/**
 * Records the state of a charge, with its ledger entries and events. Recording the same state again changes nothing; a further
 * attempt that fails is a change, also for the same reason. A successful charge stays successful, because a state that arrives later may have been read earlier.
 * @returns false when the charge is not one of ours
 */
export async function recordCharge(em: EntityManager, reported: ReportedCharge): Promise<boolean> {
  return em.fork().transactional(async (tx) => {
    const [row] = await query<IntentRow>(tx, 'select * from payment_intents where payment_intent_id = ? for update', [
      reported.paymentIntentId,
    ]);
    if (!row) return false;
    const before = toPaymentIntent(row);
    const isFinal = before.status === 'succeeded' || before.status === 'canceled';
    const status = isFinal ? before.status : reported.status;
    const failureReason = isFinal ? before.failureReason : status === 'succeeded' ? null : reported.failureReason;
    const refunded = reported.amountRefunded ?? before.amountRefunded;
    const newlyRefunded = difference(refunded, before.amountRefunded, before.currency);
    const isRefunded = status === 'succeeded' && isPositive(newlyRefunded);
    const isChanged = status !== before.status || failureReason !== before.failureReason;
    const { attemptId } = reported;
    const hasFailed = toChargeOutcome(status) === 'failed' && status !== 'canceled' && !isFinal;
    const isNewFailure = hasFailed && (attemptId === null ? isChanged : !row.failed_attempts.includes(attemptId));
    if (!isChanged && !isNewFailure && !isRefunded) return true;
    await query(
      tx,
      `update payment_intents set status = ?, failure_reason = ?, payment_method_id = coalesce(?, payment_method_id),
              amount_refunded = ?::numeric, failed_attempts = failed_attempts || ?::text[], updated_at = now()
        where payment_intent_id = ?`,
      [
        ...[status, failureReason, isFinal ? null : reported.paymentMethodId],
        isRefunded ? refunded : before.amountRefunded,
        ...[isNewFailure && attemptId !== null ? `{${JSON.stringify(attemptId)}}` : '{}', reported.paymentIntentId],
      ],
    );
    if (status === 'succeeded' && before.status !== 'succeeded') await recordSuccess(tx, before);
    if (isNewFailure) await recordChargeEvent(tx, before, 'payment.failed', { reason: failureReason });
    if (isRefunded) await recordRefund(tx, before, refunded, newlyRefunded);
    return true;
  });
}

async function recordSuccess(tx: EntityManager, intent: PaymentIntent): Promise<void> {
  const { paymentIntentId, accountId, amount, currency, invoiceId } = intent;
  await post(tx, {
    ...{ accountId, currency, kind: 'payment_received', description: `Charge ${paymentIntentId}` },
    reference: `charge ${paymentIntentId}`,
    entries: paymentEntries(amount, currency),
  });
  const paysForNothing = invoiceId !== null && !(await markPaid(tx, invoiceId, new Date()));
  if (paysForNothing) {
    // The invoice was already void, so the customer gets the money as credit.
    await post(tx, {
      ...{ accountId, currency, kind: 'credit_granted', description: `Charge ${paymentIntentId} of a void invoice` },
      reference: `credit ${paymentIntentId}`,
      entries: reversed(balanceUseEntries(amount, currency), currency),
    });
  }
  await recordChargeEvent(tx, intent, 'payment.succeeded', {});
}

async function recordRefund(tx: EntityManager, intent: PaymentIntent, total: Amount, added: Amount): Promise<void> {
  const { paymentIntentId, accountId, currency, invoiceId } = intent;
  const invoice = invoiceId === null ? null : await findInvoice(tx, invoiceId);
  // When an invoice is voided, its tax is also undone.
  const hasTax = invoice !== null && invoice.status !== 'void';
  const tax = hasTax ? refundedTax({ before: intent.amountRefunded, after: total }, invoice, currency) : '0';
  await post(tx, {
    ...{ accountId, currency, kind: 'payment_refunded', description: `Refund of charge ${paymentIntentId}` },
    reference: `refund ${paymentIntentId} ${total}`,
    entries: paymentRefundEntries(added, tax, currency),
  });
  await recordChargeEvent(tx, intent, 'payment.refunded', {
    ...{ amount: Number(added), amount_refunded: Number(total) },
  });
}

function recordChargeEvent(tx: EntityManager, intent: PaymentIntent, type: string, more: Record<string, unknown>) {
  const { paymentIntentId, accountId, invoiceId, amount, currency } = intent;
  return recordEvent(tx, { objectId: paymentIntentId, accountId, userId: null }, type, {
    ...{ account_id: accountId, payment_intent_id: paymentIntentId, invoice_id: invoiceId },
    ...{ amount: Number(amount), currency, ...more },
  });
}
