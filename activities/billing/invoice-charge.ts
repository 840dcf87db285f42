import {
  amountDue,
  balanceCovers,
  payInvoiceFromBalance,
  postponeCharge,
  recordFailedAttempt,
} from '../../db/billing/invoice-payments.ts';
import { findInvoice, type Invoice } from '../../db/billing/invoices.ts';
import {
  findLastReleasedIntent,
  findPaymentIntentOfInvoice,
  keepPaymentIntent,
  recordCharge,
  releaseCanceledIntent,
} from '../../db/billing/payment-intents.ts';
import { findCustomer, findDefaultMethod } from '../../db/billing/payment-methods.ts';
import type { Orm } from '../../db/orm.ts';
import { type ChargeOutcome, toChargeOutcome } from '../../domain/billing/payments.ts';
import {
  type PaymentProcessor,
  type ProcessorCharge,
  ProcessorRefusedError,
  ProcessorUnavailableError,
} from '../../integrations/payments/processor.ts';

interface ChargeDependencies {
  orm: Orm;
  /** Null: no processor is configured, so only the balance pays. */
  processor: PaymentProcessor | null;
}

/**
 * Charges the unpaid part of an invoice: first to the account's balance, then to its default payment method. An invoice
 * has one charge at the processor, and its id is stored before the charge is confirmed. This function first asks for
 * the outcome of an earlier attempt, and begins a new charge only when that outcome is known. It may be repeated at any
 * point.
 * @param at the time of the attempt
 * @returns `unknown` when the outcome must be asked for again later
 */
export async function chargeInvoice(deps: ChargeDependencies, invoiceId: string, at: Date): Promise<ChargeOutcome> {
  const { orm } = deps;
  const invoice = await requireInvoice(orm, invoiceId);
  if (invoice.status === 'paid') return 'succeeded';
  if (invoice.status === 'void') return 'failed';
  try {
    return await attempt(deps, invoice, at);
  } catch (error) {
    if (!(error instanceof ProcessorUnavailableError)) throw error;
    await postponeCharge(orm.em, invoiceId, at);
    return 'unknown';
  }
}

async function attempt(deps: ChargeDependencies, found: Invoice, at: Date): Promise<ChargeOutcome> {
  const { orm, processor } = deps;
  const { invoiceId, accountId, chargeAttempts } = found;
  const failed = async (reason: string): Promise<ChargeOutcome> => {
    await recordFailedAttempt(orm.em, found, chargeAttempts, { reason, at });
    return 'failed';
  };
  let intentId = await findPaymentIntentOfInvoice(orm.em, invoiceId);
  if (intentId !== null) {
    if (!processor) throw new ProcessorUnavailableError('The payment processor of a charge is not configured any more');
    let charge = await readAndRecord(deps, processor.readCharge(intentId));
    if (charge.status === 'succeeded') return 'succeeded';
    if (charge.status === 'processing') throw new ProcessorUnavailableError('The outcome of the charge is not known');
    if (charge.status !== 'canceled' && (await balanceCovers(orm.em, found))) {
      charge = await readAndRecord(deps, processor.cancelCharge(intentId));
      if (charge.status === 'succeeded') return 'succeeded';
    }
    if (charge.status === 'canceled') {
      await releaseCanceledIntent(orm.em, intentId);
      intentId = null;
    }
  }
  // The amount of a prepared charge is fixed.
  const invoice = intentId === null ? await payInvoiceFromBalance(orm.em, found, at) : found;
  if (invoice.status === 'paid') return 'succeeded';
  const [method, customerId] = [await findDefaultMethod(orm.em, accountId), await findCustomer(orm.em, accountId)];
  if (!processor || !method || customerId === null) return failed('no_payment_method');
  const { paymentMethodId } = method;
  try {
    intentId ??= await prepare(deps, processor, invoice, { customerId, paymentMethodId });
  } catch (error) {
    if (!(error instanceof ProcessorRefusedError)) throw error;
    return failed(error.code);
  }
  const key = `confirm ${intentId} ${chargeAttempts} ${paymentMethodId}`;
  const confirmed = processor.confirmCharge({ key, paymentIntentId: intentId, paymentMethodId });
  const { status, failureReason } = await readAndRecord(deps, confirmed);
  const outcome = toChargeOutcome(status);
  if (outcome === 'unknown') throw new ProcessorUnavailableError('The outcome of the charge is not known');
  return outcome === 'succeeded' ? outcome : failed(failureReason ?? status);
}

async function prepare(
  { orm }: ChargeDependencies,
  processor: PaymentProcessor,
  invoice: Invoice,
  to: { customerId: string; paymentMethodId: string },
): Promise<string> {
  const { invoiceId, accountId, currency } = invoice;
  const amount = amountDue(invoice);
  const canceledId = await findLastReleasedIntent(orm.em, invoice);
  const prepared = await processor.prepareCharge({
    ...to,
    ...{ amount, currency, metadata: { account_id: accountId, invoice_id: invoiceId } },
    // For a known key, the processor repeats its reply. So a charge that follows a cancelled one has a key of its own.
    key: `invoice ${invoiceId} ${invoice.chargeAttempts} ${to.paymentMethodId} ${amount}${canceledId === null ? '' : ` after ${canceledId}`}`,
  });
  return keepPaymentIntent(orm.em, {
    ...{ paymentIntentId: prepared.paymentIntentId, accountId, paymentMethodId: to.paymentMethodId, amount, currency },
    ...{ status: prepared.status, intentType: invoice.kind === 'period' ? 'invoice' : 'plan_change', invoiceId },
  });
}

/**
 * Cancels the charge of an invoice that is not to be paid any more.
 * @returns `succeeded` when the money had already moved; `unknown` when the outcome must be asked for again later
 */
export async function cancelInvoiceCharge(deps: ChargeDependencies, invoiceId: string): Promise<ChargeOutcome> {
  const intentId = await findPaymentIntentOfInvoice(deps.orm.em, invoiceId);
  if (intentId === null) return 'failed';
  try {
    if (!deps.processor) return 'unknown';
    const { status } = await readAndRecord(deps, deps.processor.cancelCharge(intentId));
    if (status === 'succeeded') return 'succeeded';
    return status === 'canceled' ? 'failed' : 'unknown';
  } catch (error) {
    if (!(error instanceof ProcessorUnavailableError)) throw error;
    return 'unknown';
  }
}

async function readAndRecord({ orm }: ChargeDependencies, call: Promise<ProcessorCharge>): Promise<ProcessorCharge> {
  const charge = await call;
  await recordCharge(orm.em, charge);
  return charge;
}

async function requireInvoice(orm: Orm, invoiceId: string): Promise<Invoice> {
  const invoice = await findInvoice(orm.em, invoiceId);
  if (!invoice) throw new Error(`There is no invoice ${invoiceId}`);
  return invoice;
}
