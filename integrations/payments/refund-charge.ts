import { recordCharge } from '../../db/billing/payment-intents.ts';
import {
  findRefund,
  keepRefund,
  listOpenRefunds,
  type PaymentRefund,
  settleRefund,
  type WantedRefund,
} from '../../db/billing/payment-refunds.ts';
import type { Orm } from '../../db/orm.ts';
import { type PaymentProcessor, ProcessorRefusedError, ProcessorUnavailableError } from './processor.ts';

interface Payments {
  orm: Orm;
  processor: PaymentProcessor;
}

/**
 * Refunds a charge or a part of it. A repeated call with the same id is the same refund.
 * @returns `failed` when the processor refused, `requested` when its answer is missing
 * @throws {AppError} `not_found`, `payment_not_refundable`, `refund_too_large`
 * @throws {ProcessorUnavailableError} when an earlier refund of the charge has no outcome yet; nothing was begun
 */
export async function refundCharge(payments: Payments, wanted: WantedRefund): Promise<PaymentRefund> {
  const { orm } = payments;
  // The processor forgets a key after a day, so open refunds are looked up first, in case it has already made this one.
  await settleOpenRefunds(payments, wanted.paymentIntentId);
  const refund = await keepRefund(orm.em, wanted);
  if (refund.status === 'requested') await carryOut(payments, refund);
  return (await findRefund(orm.em.fork(), refund.refundId))!;
}

async function carryOut(payments: Payments, refund: PaymentRefund): Promise<void> {
  const { refundId: key, paymentIntentId, amount, currency } = refund;
  try {
    await payments.processor.refundCharge({ key, paymentIntentId, amount, currency });
  } catch (error) {
    if (error instanceof ProcessorUnavailableError) return;
    if (!(error instanceof ProcessorRefusedError)) throw error;
    const outcome = { status: 'failed' as const, processorRefundId: null, failureReason: error.code };
    return settleRefund(payments.orm.em, key, outcome);
  }
  try {
    await settleOpenRefunds(payments, paymentIntentId);
  } catch (error) {
    // The refund stays `requested` until a notification arrives, or until the next refund of the charge.
    if (!(error instanceof ProcessorUnavailableError)) throw error;
  }
}

/**
 * Records the outcomes of open refunds. A refund that the processor does not know stays as it is.
 * @throws {ProcessorUnavailableError}
 */
export async function settleOpenRefunds({ orm, processor }: Payments, paymentIntentId: string): Promise<void> {
  const open = await listOpenRefunds(orm.em.fork(), paymentIntentId);
  if (open.length === 0) return;
  const known = await processor.listRefunds(paymentIntentId);
  // The ledger is written first: until the refund's own row is also written, the refundable amount is too small, never
  // too large.
  await recordCharge(orm.em, await processor.readCharge(paymentIntentId));
  for (const { refundId } of open) {
    const made = known.find(({ key }) => key === refundId);
    if (made) await settleRefund(orm.em, refundId, made);
  }
}
