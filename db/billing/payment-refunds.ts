import type { EntityManager } from '@mikro-orm/postgresql';
import {
  type Amount,
  compare,
  decimal,
  difference,
  greater,
  inUnits,
  isPositive,
  sumAmounts,
} from '../../domain/billing/money.ts';
import type { ChargeStatus, RefundStatus } from '../../domain/billing/payments.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { query } from '../core/query.ts';

/** An operator's refund of a charge. */
export interface PaymentRefund {
  refundId: string;
  paymentIntentId: string;
  accountId: AccountId;
  amount: Amount;
  currency: string;
  status: RefundStatus;
  /** The processor's code. Null: no failure. */
  failureReason: string | null;
  description: string;
  createdAt: Date;
}

export interface WantedRefund {
  refundId: string;
  paymentIntentId: string;
  /** Null: the whole remaining amount. */
  amount: Amount | null;
  description: string;
}

/**
 * Stores a refund before the processor is asked for it. If a refund with this id is already stored, it stays unchanged.
 * Refunds with an unknown outcome count as refunded.
 * @throws {AppError} `not_found`, `payment_not_refundable`, `refund_too_large`
 */
export async function keepRefund(em: EntityManager, wanted: WantedRefund): Promise<PaymentRefund> {
  const { refundId, paymentIntentId, description } = wanted;
  return em.fork().transactional(async (tx) => {
    const [intent] = await query<{
      account_id: AccountId;
      amount: string;
      amount_refunded: string;
      currency: string;
      status: ChargeStatus;
    }>(
      tx,
      `select account_id, amount::text, amount_refunded::text, currency, status from payment_intents
        where payment_intent_id = ? for update`,
      [paymentIntentId],
    );
    if (!intent) throw notFound('Payment intent');
    const kept = await findRefund(tx, refundId);
    if (kept?.paymentIntentId === paymentIntentId) return kept;
    if (kept) throw notFound('Refund of this charge');
    if (intent.status !== 'succeeded') {
      throw new AppError('payment_not_refundable', `The charge has moved no money: it is ${intent.status}`);
    }
    const { account_id: accountId, currency } = intent;
    // `amount_refunded` already includes the refunds that the processor has accepted.
    const open = (await listOpenRefunds(tx, paymentIntentId)).filter(({ status }) => status === 'requested');
    const given = sumAmounts([intent.amount_refunded, ...open.map(({ amount }) => amount)], currency);
    const left = greater(difference(intent.amount, given, currency), '0');
    const amount = wanted.amount ?? left;
    if (!isPositive(left) || compare(amount, left) > 0) {
      throw new AppError('refund_too_large', `Of the charge ${left} ${currency} can be given back`);
    }
    await query(
      tx,
      `insert into payment_refunds (refund_id, payment_intent_id, account_id, amount, currency, description)
       values (?, ?, ?, ?::numeric, ?, ?)`,
      [refundId, paymentIntentId, accountId, amount, currency, description],
    );
    const after = { refund: `${amount} ${currency}`, description };
    await recordAudit(tx, { accountId, objectId: paymentIntentId, before: null, after });
    return (await findRefund(tx, refundId))!;
  });
}

/** Null: there is none. */
export async function findRefund(em: EntityManager, refundId: string): Promise<PaymentRefund | null> {
  const [row] = await query<RefundRow>(em, `${selected} where refund_id = ?`, [refundId]);
  return row ? toPaymentRefund(row) : null;
}

/** Refunds of a charge without a final outcome, oldest first. */
export async function listOpenRefunds(em: EntityManager, paymentIntentId: string): Promise<PaymentRefund[]> {
  const rows = await query<RefundRow>(
    em,
    `${selected} where payment_intent_id = ? and status in ('requested', 'pending') order by created_at, refund_id`,
    [paymentIntentId],
  );
  return rows.map(toPaymentRefund);
}

/** Records the outcome of a refund at the processor. */
export async function settleRefund(
  em: EntityManager,
  refundId: string,
  outcome: { status: RefundStatus; processorRefundId: string | null; failureReason: string | null },
): Promise<void> {
  await query(
    em.fork(),
    `update payment_refunds set status = ?, processor_refund_id = coalesce(?, processor_refund_id), failure_reason = ?,
            updated_at = now() where refund_id = ?`,
    [outcome.status, outcome.processorRefundId, outcome.failureReason, refundId],
  );
}

const selected = 'select * from payment_refunds';

interface RefundRow {
  refund_id: string;
  payment_intent_id: string;
  account_id: AccountId;
  amount: string;
  currency: string;
  status: RefundStatus;
  processor_refund_id: string | null;
  failure_reason: string | null;
  description: string;
  created_at: string;
  updated_at: string;
}

function toPaymentRefund(row: RefundRow): PaymentRefund {
  return {
    refundId: row.refund_id,
    paymentIntentId: row.payment_intent_id,
    accountId: row.account_id,
    amount: inUnits(decimal(row.amount), row.currency),
    currency: row.currency,
    status: row.status,
    failureReason: row.failure_reason,
    description: row.description,
    createdAt: new Date(row.created_at),
  };
}
